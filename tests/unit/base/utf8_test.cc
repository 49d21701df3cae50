#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace verbena {
namespace {

TEST(Utf8, OneToFourBytes) {
  const auto is = [](std::string_view text, char32_t value) {
    const auto found = first_code_point(std::string{text} + "x");
    return found && found->value == value && found->size == text.size();
  };
  EXPECT_TRUE(is("a", U'a'));
  EXPECT_TRUE(is("Ü", U'Ü'));
  EXPECT_TRUE(is("→", U'→'));
  EXPECT_TRUE(is("\xf0\x9f\x98\x80", 0x1f600));
  EXPECT_TRUE(is("\xf4\x8f\xbf\xbf", 0x10ffff));
}

TEST(Utf8, WhatIsNone) {
  for (const char* text :
       {"", "\x80", "\xbf", "\xc3", "\xc3x", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xe2\x86"}) {
    EXPECT_FALSE(first_code_point(text)) << text;
  }
}

}  // namespace
}  // namespace verbena
