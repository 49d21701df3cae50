#pragma once

// READs, all posted at once, and what has come of them.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "tests/sim/world.h"

namespace verbena::sim {

struct Reads {
  Reads(std::uint64_t seed, const Link& link, const ConnectOptions& options, std::uint32_t bytes)
      : world{seed, link},
        count{options.depth},
        c{world, options},
        memory_a(bytes),
        memory_b(bytes) {}

  void run() {
    post();
    wait();
  }
  void post() {
    const std::array sges{
        engine::Sge{near.iova, static_cast<std::uint32_t>(memory_a.size()), near.key}};
    for (std::uint32_t i = 0; i < count; ++i) {
      ASSERT_EQ(c.a.send({.kind = engine::SendKind::read,
                          .signaled = true,
                          .remote_address = far.iova,
                          .rkey = far.key,
                          .sges = sges}),
                engine::PostResult::posted);
    }
  }
  void wait() {
    std::uint32_t good = 0;
    const auto all_good = [&] {
      for (const auto& done : c.a.poll()) {
        good += done.status == engine::CompletionStatus::success ? 1 : 0;
      }
      return good == count;
    };
    EXPECT_TRUE(world.run_until(all_good, std::chrono::seconds{60}))
        << good << " of " << count << ", " << memory_a.size() << " bytes each";
  }

  World world;
  std::uint32_t count;
  Connection c;
  std::vector<std::uint8_t> memory_a;
  std::vector<std::uint8_t> memory_b;
  engine::MemoryRegion near = c.a.node->expose(c.a.pd, memory_a, engine::Access::kLocalWrite);
  engine::MemoryRegion far = c.b.node->expose(c.b.pd, memory_b, engine::Access::kRemoteRead);
};

}  // namespace verbena::sim
