// verbena lab: the list of labs, and what is read from a lab's run.

#include <gtest/gtest.h>

#include <system_error>

#include "tools/verbena/lab_list.h"
#include "tools/verbena/lab_options.h"
#include "tools/verbena/lab_run.h"

namespace verbena::tool {
namespace {

TEST(LabList, NameThenIdea) {
  const auto labs = parse_lab_list("# order of teaching\n\nhello   one WRITE, one READ \nimm x");
  ASSERT_EQ(labs.size(), 2u);
  EXPECT_EQ(labs[0].name, "hello");
  EXPECT_EQ(labs[0].idea, "one WRITE, one READ");
  EXPECT_EQ(labs[1].name, "imm");
}

TEST(LabList, NearestIsWhatWasMeant) {
  const auto labs = parse_lab_list("hello a\nimm b\nsend-recv c\n");
  EXPECT_EQ(nearest_lab(labs, "helo"), "hello");
  EXPECT_EQ(nearest_lab(labs, "sendrecv"), "send-recv");
  EXPECT_EQ(nearest_lab(labs, "parameter-server"), std::nullopt);
  EXPECT_EQ(nearest_lab({}, "hello"), std::nullopt);
}

TEST(LabRun, OutputOfBothStreamsAndStatus) {
  const auto result = run_lab({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"});
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.output, "out\nerr\n");
}

TEST(LabRun, SignalIsNoSuccess) {
  EXPECT_EQ(run_lab({"/bin/sh", "-c", "kill -9 $$"}).status, 128 + 9);
}

TEST(LabRun, ProgramThatIsNotThere) {
  EXPECT_THROW(static_cast<void>(run_lab({"/nonexistent/lab"})), std::system_error);
}

TEST(LabRun, LastShownLineCounts) {
  EXPECT_EQ(shown_in("shown: a\nclient | x\nshown: b c\nmore\n"), "b c");
  EXPECT_EQ(shown_in("it has shown: nothing\n"), "");
  EXPECT_EQ(shown_in(""), "");
}

TEST(LabOptions, ValuesStayWithTheirOptions) {
  const TakenOptions any = parse_taken_options("--size VALUE\n--stats\n--drop VALUE\nnoise\n");
  const auto given = split_options({"--drop", "1%", "--stats", "--size=64"}, any);
  EXPECT_EQ(given.problem, "");
  ASSERT_EQ(given.options.size(), 3u);
  EXPECT_EQ(given.options[0].name, "--drop");
  EXPECT_EQ(given.options[0].words, (std::vector<std::string>{"--drop", "1%"}));
  EXPECT_EQ(given.options[1].words, (std::vector<std::string>{"--stats"}));
  EXPECT_EQ(given.options[2].name, "--size");
  EXPECT_EQ(given.options[2].words, (std::vector<std::string>{"--size=64"}));
}

TEST(LabOptions, WhatNoLabTakesIsAProblem) {
  const TakenOptions any = parse_taken_options("--size VALUE\n--stats\n");
  EXPECT_EQ(split_options({"--colour"}, any).problem, "no lab has the option --colour");
  EXPECT_EQ(split_options({"--size"}, any).problem, "--size: its value is missing");
  EXPECT_NE(split_options({"server"}, any).problem, "");
}

TEST(LabOptions, CommandsCanBePastedIntoAShell) {
  EXPECT_EQ(shell_quoted({"--drop", "1%", "--delay=2ms~1ms"}), "--drop 1% --delay=2ms~1ms");
  EXPECT_EQ(shell_quoted({"a b", "it's", ""}), "'a b' 'it'\\''s' ''");
}

}  // namespace
}  // namespace verbena::tool
