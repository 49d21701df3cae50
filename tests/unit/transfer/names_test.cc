#include "tools/transfer/names.h"

#include <gtest/gtest.h>

#include "tools/transfer/messages.h"

namespace verbena::transfer {
namespace {

TEST(TransferNames, APathIsItsParts) {
  EXPECT_EQ(components_of("a"), (std::vector<std::string>{"a"}));
  EXPECT_EQ(components_of("a/.b/c..d"), (std::vector<std::string>{"a", ".b", "c..d"}));
  EXPECT_EQ(components_of("a/.verbena-receive"),
            (std::vector<std::string>{"a", ".verbena-receive"}));
  EXPECT_EQ(components_of("\xff\n"), (std::vector<std::string>{"\xff\n"}));
}

TEST(TransferNames, NothingLeavesTheFolder) {
  const std::vector<std::string> names{"",
                                       "/",
                                       "/etc/passwd",
                                       "..",
                                       "a/../b",
                                       "a/..",
                                       ".",
                                       "./a",
                                       "a//b",
                                       "a/",
                                       "../a",
                                       ".verbena-receive/x",
                                       ".verbena-receive",
                                       std::string(256, 'a'),
                                       std::string(4096, 'a'),
                                       std::string{"a\0b", 3}};
  for (const std::string& name : names) {
    EXPECT_THROW(static_cast<void>(components_of(name)), Malformed) << name;
  }
}

TEST(TransferNames, TheTerminalSeesNoControlCharacters) {
  EXPECT_EQ(printable("a b.txt"), "a b.txt");
  EXPECT_EQ(printable("na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80"),
            "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(printable("a\x1b[2Jb\n\t\\"), "a\\x1b[2Jb\\n\\t\\\\");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");           // CSI of ISO 6429
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\xe2\\x80\\xae");  // right-to-left override
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");           // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
}

}  // namespace
}  // namespace verbena::transfer
