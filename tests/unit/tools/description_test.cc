// What shells complete and man(1) shows, from a command line of two options.

#include "tools/verbena/description.h"

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>

namespace verbena::tool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct Description : testing::Test {
  Description() {
    CLI::App* const command = app.add_subcommand("run", "Run it: verbena run -- PROGRAM");
    command->add_option("--log", log, "How much\nis said")->check(CLI::IsMember({"off", "all"}));
    command->add_option("--pcap", file, "Where to")->type_name("FILE");
    command->footer("Examples:\n  .verbena run\n\nExit status: 0 \\o/");
    app.add_subcommand("manual", "Nobody's business")->group("");
  }

  CLI::App app{"A program", "verbena"};
  std::string log, file;
};

TEST_F(Description, HasCommandsAndOptions) {
  const auto program = describe(app);
  ASSERT_EQ(program.commands.size(), 1u) << "a hidden one is told";
  const auto& options = program.commands.front().options;
  ASSERT_EQ(options.size(), 3u);
  EXPECT_EQ(options[0].name, "--help");
  EXPECT_EQ(options[0].value, "");
  EXPECT_EQ(options[1].name, "--log");
  EXPECT_THAT(options[1].choices, ElementsAre("off", "all"));
  EXPECT_EQ(options[2].value, "FILE");
  EXPECT_THAT(options[2].choices, IsEmpty());
}

TEST_F(Description, EveryShellCompletesTheChoices) {
  const auto program = describe(app);
  EXPECT_THAT(completion(program, "bash"), HasSubstr("run:--log) words=\"off all\" ;;"));
  EXPECT_THAT(completion(program, "zsh"), HasSubstr("'--log[How much]:WORD:(off all)'"));
  EXPECT_THAT(completion(program, "fish"), HasSubstr("-l log -x -a 'off all' -d 'How much'"));
  EXPECT_EQ(completion(program, "csh"), "");
}

TEST_F(Description, ManualPageIsNoRequestToRoff) {
  const auto page = manual_page(describe(app), "run");
  EXPECT_THAT(page, HasSubstr(".SH NAME\nverbena\\-run \\- Run it\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-log\\fR \\fIoff|all\\fR\nHow much\nis said\n"));
  EXPECT_THAT(page, HasSubstr(".SH EXAMPLES\n.nf\n  .verbena run\n.fi\n"));
  EXPECT_THAT(page, HasSubstr(".SH \"EXIT STATUS\"\n0 \\eo/\n"));
  EXPECT_THAT(manual_page(describe(app), ""), Not(HasSubstr("business")));
  EXPECT_EQ(manual_page(describe(app), "walk"), "");
}

}  // namespace
}  // namespace verbena::tool
