#pragma once

// The messages of this lab, and where the server receives them.

#include <cstdint>
#include <cstring>

#include "labs/common/lab.h"
#include "labs/common/pattern.h"
#include "rdma++/rdma.h"

namespace send_recv {

constexpr std::uint64_t kReceives = 8;  // posted at a time, and messages of one burst

/// A message: header, body, the number once more. The client gathers these three.
struct Header {
  std::uint64_t number = 0;
  std::uint64_t length = 0;   // of the body
  rdma::RemoteBuffer flag{};  // at the client: 1 when it has waited long enough, see step 6
};
using Trailer = std::uint64_t;

inline std::uint64_t length_of(std::uint64_t number, std::size_t size) {
  return 1 + number * 7919 % size;
}

/// The server's memory: headers in one place, all the rest in another.
struct Room {
  rdma::Buffer headers, rests;
  std::size_t rest_size;

  Room(const rdma::ProtectionDomain& pd, std::size_t size)
      : headers{pd, kReceives * sizeof(Header)},
        rests{pd, kReceives * (size + sizeof(Trailer))},
        rest_size{size + sizeof(Trailer)} {}

  /// Places go backwards: what counts is the order of posting, not of addresses.
  static std::uint64_t place(std::uint64_t id) { return kReceives - 1 - id % kReceives; }
  rdma::Recv receive(std::uint64_t id) const {
    return rdma::Recv{{headers.slice(place(id) * sizeof(Header), sizeof(Header)),
                       rests.slice(place(id) * rest_size, rest_size)}}
        .id(id);
  }
  /// What receive `id` got must be message `id`.
  Header check(const rdma::Completion& done, std::uint64_t id, std::size_t size) const {
    lab::check(done.is_receive() && done.id() == id, "receive {} completed instead of {}",
               done.id(), id);
    const Header header = headers.as<Header>()[place(id)];
    lab::check(header.number == id, "receive {} holds message {}, message {} is overwritten", id,
               header.number, id);
    const std::uint64_t length = length_of(id, size);
    lab::check(
        header.length == length && done.length() == sizeof(Header) + length + sizeof(Trailer),
        "message {}: got {} bytes instead of {}", id, done.length(),
        sizeof(Header) + length + sizeof(Trailer));
    const auto rest = rests.bytes().subspan(place(id) * rest_size, rest_size);
    lab::check(lab::first_difference(rest.first(length), id) == length, "message {} is garbled",
               id);
    Trailer trailer = 0;
    std::memcpy(&trailer, rest.data() + length, sizeof trailer);
    lab::check(trailer == id, "message {} ends with {}", id, trailer);
    return header;
  }
};

}  // namespace send_recv
