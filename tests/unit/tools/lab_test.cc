// verbena lab: the list of labs, and what is read from a lab's run.

#include <gtest/gtest.h>

#include <system_error>

#include "tools/verbena/lab_list.h"
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

}  // namespace
}  // namespace verbena::tool
