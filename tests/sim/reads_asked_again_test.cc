// READs over a lossy network, of a responder with the kernel's rules for what is asked again.

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <variant>
#include <vector>

#include "packet/packet.h"
#include "tests/sim/reads.h"
#include "tests/sim/seeds.h"

namespace verbena::sim {
namespace {

using namespace std::chrono_literals;

/// Which READ requests rxe takes (rxe_resp.c, duplicate_request). It keeps the range of each, and
/// takes one that lies within it for the same, asked again; from then on, the range begins where
/// that one began. What begins earlier it drops without a word, for ever.
class KernelRules {
 public:
  [[nodiscard]] bool takes(Psn psn, std::uint32_t mtu, const packet::Reth& asked) {
    const std::uint32_t packets = (asked.length + mtu - 1) / mtu;
    const auto known = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& r) {
      return distance(psn, r.first) >= 0 && distance(psn, r.last) <= 0;
    });
    if (known == ranges_.end()) {
      ranges_.push_back({psn, psn + (packets - 1), asked.address, asked.length});
      return true;
    }
    if (asked.address < known->begin || asked.length > known->length ||
        asked.address + asked.length > known->begin + known->length) {
      return false;
    }
    known->begin = asked.address;
    return true;
  }

 private:
  struct Range {
    Psn first;
    Psn last;
    std::uint64_t begin;
    std::uint32_t length;
  };
  std::vector<Range> ranges_;
};

void read_all(std::uint64_t seed) {
  constexpr std::uint16_t kMtu = 4096;
  Chance chance{seed};
  Reads reads{seed,
              {.delay = 100us, .loss_ppm = 10'000 + chance.pick(50'000)},
              {.mtu = kMtu, .rd_atomic = 16, .depth = 40},
              1 + chance.pick(100'000)};
  KernelRules rules;
  unsigned refused = 0;
  reads.world.filter = [&](const packet::Flow&, std::span<std::uint8_t> frame) {
    std::vector<std::uint8_t> bytes(frame.begin(), frame.end());
    bytes.resize(bytes.size() + packet::kIcrcSize);
    const auto parsed = packet::parse(bytes);
    const auto& p = std::get<packet::Packet>(parsed);
    if (p.info().kind != packet::Kind::read_request) return true;
    const bool takes = rules.takes(p.bth.psn, kMtu, p.reth);
    refused += takes ? 0 : 1;
    return takes;
  };
  reads.run();
  EXPECT_EQ(refused, 0u);
}

TEST(ReadsAskedAgain, AsTheKernelTakesThem) { each_seed(200, read_all); }

}  // namespace
}  // namespace verbena::sim
