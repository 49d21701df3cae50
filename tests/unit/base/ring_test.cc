#include "base/ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

namespace verbena {
namespace {

std::vector<int> contents(const Ring<int>& ring) {
  std::vector<int> all;
  for (std::size_t i = 0; i < ring.size(); ++i) all.push_back(ring[i]);
  return all;
}

TEST(Ring, TakesFromBothEnds) {
  Ring<int> ring;
  for (int i = 0; i < 5; ++i) ring.push_back(i);
  ring.pop_front();
  ring.pop_back();
  EXPECT_EQ(contents(ring), (std::vector{1, 2, 3}));
  EXPECT_EQ(ring.front(), 1);
  EXPECT_EQ(ring.back(), 3);
}

TEST(Ring, IsADeque) {
  std::mt19937 random{7};
  Ring<int> ring;
  std::deque<int> model;
  for (int i = 0; i < 20'000; ++i) {
    switch (random() % 8) {
      case 0:
      case 1:
      case 2:
        ring.push_back(i);
        model.push_back(i);
        break;
      case 3:
      case 4:
        if (model.empty()) break;
        ring.pop_front();
        model.pop_front();
        break;
      case 5:
        if (model.empty()) break;
        ring.pop_back();
        model.pop_back();
        break;
      case 6: {
        const auto third = [](int v) { return v % 3 == 0; };
        EXPECT_EQ(ring.count_if(third),
                  static_cast<std::size_t>(std::count_if(model.begin(), model.end(), third)));
        const auto found = std::find_if(model.begin(), model.end(), third);
        const int* mine = ring.find_if(third);
        ASSERT_EQ(mine == nullptr, found == model.end());
        if (mine != nullptr) {
          EXPECT_EQ(*mine, *found);
        }
        break;
      }
      default:
        if (random() % 16 != 0) break;
        const auto odd = [](int v) { return v % 2 != 0; };
        ring.remove_if(odd);
        std::erase_if(model, odd);
    }
    ASSERT_EQ(contents(ring), (std::vector<int>{model.begin(), model.end()}));
  }
}

}  // namespace
}  // namespace verbena
