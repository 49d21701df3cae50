// The bytes of the lab file's messages: two ends that were built apart must agree on them.

#include <gtest/gtest.h>

#include "labs/file/wire.h"

namespace {

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

std::string refusal(std::vector<std::byte> message) {
  try {
    static_cast<void>(wire::decode<wire::Done>(message));
    return "";
  } catch (const wire::Malformed& malformed) {
    return malformed.what();
  }
}

TEST(FileWire, NumbersAreBigEndian) {
  EXPECT_EQ(wire::encode(wire::Grant{0x0102'0304'0506'0708, 0x10, 0xa1b2'c3d4}),
            bytes_of({'V',  'B',  'F',  'L', 0, 2, 0, 2,  0, 0, 0, 20,  // header
                      1,    2,    3,    4,   5, 6, 7, 8,                // addr
                      0,    0,    0,    0,   0, 0, 0, 16,               // length
                      0xa1, 0xb2, 0xc3, 0xd4}));                        // rkey
}

TEST(FileWire, TextHasItsLengthInFront) {
  EXPECT_EQ(wire::encode(wire::Verdict{1, "ok"}),
            bytes_of({'V', 'B', 'F', 'L', 0, 2, 0, 4, 0, 0, 0, 5, 1, 0, 2, 'o', 'k'}));
}

TEST(FileWire, AnOfferComesBackAsItWas) {
  wire::Offer offer{.length = 1u << 20, .hash = {}, .name = "a file"};
  offer.hash.fill(0xee);
  const auto back = wire::decode<wire::Offer>(wire::encode(offer));
  EXPECT_EQ(back.length, offer.length);
  EXPECT_EQ(back.hash, offer.hash);
  EXPECT_EQ(back.name, offer.name);
}

TEST(FileWire, RefusesWhatIsNoMessageOfThisVersion) {
  const auto good = wire::encode(wire::Done{7});
  EXPECT_EQ(refusal(good), "");
  auto other = good;
  other[0] = std::byte{'X'};
  EXPECT_NE(refusal(other).find("no file transfer"), std::string::npos);
  other = good;
  other[5] = std::byte{3};
  EXPECT_NE(refusal(other).find("version 3, this end speaks 2"), std::string::npos);
  EXPECT_NE(refusal(wire::encode(wire::Id{7})).find("type 5 where 3"), std::string::npos);
}

TEST(FileWire, RefusesEveryTruncationAndExcess) {
  const auto offer = wire::encode(wire::Offer{.length = 1, .hash = {}, .name = "name"});
  for (std::size_t length = 0; length < offer.size(); ++length) {
    EXPECT_THROW(static_cast<void>(wire::decode<wire::Offer>(std::span{offer}.first(length))),
                 wire::Malformed);
  }
  auto longer = offer;
  longer.push_back({});
  EXPECT_THROW(static_cast<void>(wire::decode<wire::Offer>(longer)), wire::Malformed);
  longer[11] = static_cast<std::byte>(static_cast<int>(longer[11]) + 1);  // announced, but unused
  EXPECT_THROW(static_cast<void>(wire::decode<wire::Offer>(longer)), wire::Malformed);
}

TEST(FileWire, RefusesToSendMoreThanTheOtherEndTakes) {
  EXPECT_THROW(static_cast<void>(wire::encode(wire::Offer{
                   .length = 1, .hash = {}, .name = std::string(wire::kMessageSize, 'n')})),
               wire::Malformed);
}

}  // namespace
