#include <gtest/gtest.h>

#include "tools/transfer/chunk_hash.h"
#include "tools/transfer/proof.h"
#include "tools/transfer/slots.h"

namespace verbena::transfer {
namespace {

TEST(TransferHash, ZerosHashAsZeros) {
  for (const std::size_t size : {0, 1, 65535, 65536, 65537, 1 << 20}) {
    EXPECT_EQ(hash_of_zeros(size), hash_of(std::vector<std::byte>(size))) << size;
  }
}

/// XXH3 with 128 bits of nothing, as its specification has it.
TEST(TransferHash, IsTheOneThatOthersHave) {
  EXPECT_EQ(hash_of({}), (Hash{0x99, 0xaa, 0x06, 0xd3, 0x01, 0x47, 0x98, 0xd8, 0x60, 0x01, 0xc3,
                               0x24, 0x46, 0x8d, 0x49, 0x7f}));
}

TEST(TransferHash, TheRootKnowsOrderNumberAndCut) {
  const Hash a = hash_of(std::vector<std::byte>(1)), b = hash_of(std::vector<std::byte>(2));
  const Chunks chunks{100, 50};
  const Hash root = root_of(chunks, {a, b});
  EXPECT_NE(root, root_of(chunks, {b, a}));
  EXPECT_NE(root, root_of(chunks, {a}));
  EXPECT_NE(root, root_of({99, 50}, {a, b}));
  EXPECT_NE(root, root_of({100, 51}, {a, b}));
  EXPECT_EQ(root, root_of(chunks, {a, b}));
}

TEST(TransferHash, ChunksCoverTheFile) {
  for (const std::uint64_t size : {0, 1, 49, 50, 51, 100, 101}) {
    const Chunks chunks{size, 50};
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < chunks.count(); ++i) {
      EXPECT_EQ(chunks.offset(i), sum);
      EXPECT_GT(chunks.length(i), 0u);
      sum += chunks.length(i);
    }
    EXPECT_EQ(sum, size);
  }
}

TEST(TransferProof, DependsOnSecretPurposeNoncesAndIndex) {
  const Secret secret(32, 1), other(32, 2);
  const Nonces nonces{random_bytes(), random_bytes()};
  const Bytes32 proof = prove(secret, kSenderProof, nonces);
  EXPECT_TRUE(same(proof, prove(secret, kSenderProof, nonces)));
  EXPECT_FALSE(same(proof, prove(other, kSenderProof, nonces)));
  EXPECT_FALSE(same(proof, prove(secret, kReceiverProof, nonces)));
  EXPECT_FALSE(same(proof, prove(secret, kSenderProof, {nonces.receiver, nonces.sender})));
  EXPECT_FALSE(same(proof, prove(secret, kSenderProof, nonces, 1)));
}

TEST(TransferSlots, ChunksBeginOnPagesAndDoNotOverlap) {
  const Slots slots{4, 5000};
  EXPECT_EQ(slots.data_at(0), 4096u);
  EXPECT_EQ(slots.data_at(1) % 4096, 0u);
  EXPECT_GE(slots.header_at(1), slots.data_at(0) + 5000);
  EXPECT_GE(slots.size(), slots.data_at(3) + 5000);
}

}  // namespace
}  // namespace verbena::transfer
