#pragma once

// SHA-256, a piece at a time.

#include <openssl/evp.h>

#include <memory>
#include <span>
#include <string>

#include "labs/common/lab.h"
#include "labs/file/wire.h"

class Digest {
 public:
  Digest() : context_{EVP_MD_CTX_new(), EVP_MD_CTX_free} {
    lab::check(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
               "OpenSSL has no SHA-256 to offer");
  }
  Digest& add(std::span<const std::byte> bytes) {
    lab::check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1,
               "OpenSSL: EVP_DigestUpdate failed");
    return *this;
  }
  /// Once, at the end.
  [[nodiscard]] wire::Hash result() {
    wire::Hash hash{};
    lab::check(EVP_DigestFinal_ex(context_.get(), hash.data(), nullptr) == 1,
               "OpenSSL: EVP_DigestFinal_ex failed");
    return hash;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

/// The first 16 digits, for people.
[[nodiscard]] inline std::string brief(const wire::Hash& hash) {
  std::string text;
  for (std::size_t i = 0; i < 8; ++i) text += fmt::format("{:02x}", hash[i]);
  return text;
}

/// Only who has the secret can say this. It tells nobody else what the secret is.
[[nodiscard]] inline wire::Hash proof_of(const wire::Hash& secret, std::uint64_t id) {
  wire::Writer writer;
  writer(std::string{"verbena lab file"});
  writer(secret);
  writer(id);
  return Digest{}.add(writer.bytes).result();
}
