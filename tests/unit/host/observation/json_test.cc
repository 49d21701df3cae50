#include "host/observation/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace verbena::host {
namespace {

TEST(JsonQuoted, LeavesUtf8AsItIs) {
  EXPECT_EQ(json_quoted("Übung → 1"), "\"Übung → 1\"");
  EXPECT_EQ(json_quoted("\ufffd"), "\"\ufffd\"");
}

TEST(JsonQuoted, ReplacesEachByteThatIsNone) {
  EXPECT_EQ(json_quoted("a\xdc\xff"), R"("a\ufffd\ufffd")");
  EXPECT_EQ(json_quoted("cut \xc3"), R"("cut \ufffd")");
}

TEST(JsonQuoted, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(json_quoted("\"\\\n\x1b\x7f\u009b"), R"("\"\\\u000a\u001b\u007f\u009b")");
}

TEST(JsonQuoted, IsReadAsItWas) {
  const std::string text = "\"Übung\"\\\t\u0085 \U0001f600";
  EXPECT_EQ(nlohmann::json::parse(json_quoted(text)).get<std::string>(), text);
}

}  // namespace
}  // namespace verbena::host
