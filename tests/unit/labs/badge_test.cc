// Which peers a lab takes for its own.

#include "labs/common/badge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using testing::AllOf;
using testing::HasSubstr;

lab::Options options_of(const char* name, std::uint32_t layout = 1) {
  lab::Options options;
  options.lab = name;
  options.layout = layout;
  return options;
}

std::string words_for(const lab::Badge& shown) {
  return lab::stranger(options_of("hello"), std::as_bytes(std::span{&shown, 1}));
}

TEST(Badge, OfTheSameLab) { EXPECT_EQ(words_for(lab::badge_of(options_of("hello"))), ""); }

TEST(Badge, OfAnotherLabIsToldBothNames) {
  EXPECT_THAT(words_for(lab::badge_of(options_of("parameter-server"))),
              AllOf(HasSubstr("`verbena lab parameter-server`"), HasSubstr("`verbena lab hello`")));
  EXPECT_NE(words_for(lab::badge_of(options_of("hell"))), "");
}

TEST(Badge, OfAnotherLayoutIsToldBothNumbers) {
  EXPECT_THAT(words_for(lab::badge_of(options_of("hello", 7))),
              AllOf(HasSubstr("layout 7"), HasSubstr("ours of 1")));
}

TEST(Badge, NoneAtAll) {
  const std::array<std::byte, 64> zeros{};
  EXPECT_THAT(lab::stranger(options_of("hello"), zeros), HasSubstr("no end of"));
  EXPECT_THAT(lab::stranger(options_of("hello"), {}), HasSubstr("no end of"));
  const lab::Badge whole = lab::badge_of(options_of("hello"));
  EXPECT_THAT(lab::stranger(options_of("hello"),
                            std::as_bytes(std::span{&whole, 1}).first(sizeof whole - 1)),
              HasSubstr("no end of"));
}

TEST(Badge, WhatFollowsIsNotItsBusiness) {
  const std::array<lab::Badge, 2> two{lab::badge_of(options_of("hello")), lab::Badge{}};
  EXPECT_EQ(lab::stranger(options_of("hello"), std::as_bytes(std::span{two})), "");
}

TEST(Badge, ANameThatDoesNotFitIsRefused) {
  EXPECT_THROW(static_cast<void>(lab::badge_of(options_of("a-name-too-long-to-fit"))), lab::Failed);
}

}  // namespace
