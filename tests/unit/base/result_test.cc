#include "base/result.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>

namespace verbena {
namespace {

TEST(Result, HoldsAValue) {
  Result<std::string> r{std::string{"value"}};
  ASSERT_TRUE(r.ok());
  EXPECT_TRUE(static_cast<bool>(r));
  EXPECT_EQ(*r, "value");
  EXPECT_EQ(r->size(), 5u);
}

TEST(Result, HoldsAnError) {
  const Result<int> r{Error{EINVAL, "call: object: cause"}};
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, EINVAL);
  EXPECT_EQ(r.error().message, "call: object: cause");
}

TEST(Result, GivesUpAMoveOnlyValue) {
  Result<std::unique_ptr<int>> r{std::make_unique<int>(7)};
  const std::unique_ptr<int> p = std::move(r).value();
  EXPECT_EQ(*p, 7);
}

TEST(Result, SuccessWithoutAValue) {
  const Status good{Ok{}};
  const Status bad{Error{ENOMEM, "no room"}};
  EXPECT_TRUE(good.ok());
  EXPECT_FALSE(bad.ok());
}

}  // namespace
}  // namespace verbena
