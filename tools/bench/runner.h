#pragma once

// Runs one round of one measurement by the program that measures it: our own ends, the bare loops
// of bench/limits, or the programs of UCX and libfabric.

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/bench/sample.h"
#include "tools/bench/spec.h"

namespace verbena::bench {

/// This machine can't measure it; the words say why.
class NotHere : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The round failed; the words say why.
class RoundFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// No server answers: there is no use in further rounds.
class NobodyThere : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Surroundings {
  std::string folder;      // with the program `ends` and the bare loops: lib/verbena/bench
  std::string host{};      // of the other end; empty: this one
  std::uint16_t port = 0;  // of its server
  std::string device{};    // empty: the one that has the address
  const std::atomic<bool>* stop = nullptr;  // set by a signal: ends a round early
};

struct Round {
  Sample sample;
  std::vector<std::string> devices{};  // of both ends, for RDMA
};

/// Throws NotHere, RoundFailed or NobodyThere.
[[nodiscard]] Round run_round(const Spec& spec, const Surroundings& where);

/// Private to runner.cc and others.cc.
[[nodiscard]] Sample run_limit(const Spec& spec, const Surroundings& where);
[[nodiscard]] Sample run_ucx(const Spec& spec);
[[nodiscard]] Sample run_libfabric(const Spec& spec);

}  // namespace verbena::bench
