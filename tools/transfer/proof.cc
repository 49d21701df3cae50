#include "tools/transfer/proof.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <stdexcept>

#include "tools/transfer/descriptor.h"

namespace verbena::transfer {

Bytes32 random_bytes() {
  Bytes32 bytes{};
  ssize_t count = 0;
  do {
    count = getrandom(bytes.data(), bytes.size(), 0);
  } while (count < 0 && errno == EINTR);
  if (count != static_cast<ssize_t>(bytes.size())) throw_errno("getrandom");
  return bytes;
}

Secret read_key(const std::string& file) {
  constexpr std::size_t kLeast = 16, kMost = 4096;
  const Descriptor fd{open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY)};
  if (!fd) throw_errno(fmt::format("--key-file {}", file));
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) throw_errno(fmt::format("--key-file {}", file));
  if ((status.st_mode & 0077) != 0) {
    throw std::runtime_error{
        fmt::format("--key-file {}: mode {:04o} lets others use the key; chmod 600 {}", file,
                    status.st_mode & 07777, file)};
  }
  Secret secret(kMost + 1);
  std::size_t size = 0;
  while (size < secret.size()) {
    const ssize_t count = read(fd.get(), secret.data() + size, secret.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_errno(fmt::format("--key-file {}", file));
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  if (size < kLeast || size > kMost) {
    throw std::runtime_error{
        fmt::format("--key-file {}: {} bytes; a key has {} to {}: head -c 32 /dev/urandom > FILE",
                    file, size > kMost ? "too many" : std::to_string(size), kLeast, kMost)};
  }
  secret.resize(size);
  return secret;
}

Bytes32 prove(const Secret& secret, std::string_view purpose, const Nonces& nonces,
              std::uint32_t index) {
  Writer text;
  text(std::string{purpose});
  text(nonces.sender);
  text(nonces.receiver);
  text(index);
  Bytes32 proof{};
  unsigned size = proof.size();
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.bytes.data());
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), bytes, text.bytes.size(),
           proof.data(), &size) == nullptr ||
      size != proof.size()) {
    throw std::runtime_error{"OpenSSL has no HMAC-SHA-256 to offer"};
  }
  return proof;
}

bool same(const Bytes32& a, const Bytes32& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace verbena::transfer
