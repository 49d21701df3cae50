// Which rank a process is, from what launchers say.

#include "labs/common/ranks.h"

#include <gtest/gtest.h>

#include <map>

namespace {

using Variables = std::map<std::string, std::string>;

std::optional<lab::Rank> rank_in(const Variables& variables) {
  return lab::rank_from([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found != variables.end() ? std::optional{found->second} : std::nullopt;
  });
}

void expect_rank(const Variables& variables, unsigned number, unsigned count,
                 const std::string& root, std::uint16_t port, const std::string& from) {
  const auto rank = rank_in(variables);
  ASSERT_TRUE(rank.has_value());
  EXPECT_EQ(rank->number, number);
  EXPECT_EQ(rank->count, count);
  EXPECT_EQ(rank->root, root);
  EXPECT_EQ(rank->port, port);
  EXPECT_EQ(rank->from, from);
}

TEST(Ranks, NobodySaid) {
  EXPECT_FALSE(rank_in({}).has_value());
  EXPECT_FALSE(rank_in({{"RANK", "1"}}).has_value());
  EXPECT_FALSE(rank_in({{"SLURM_NTASKS", "4"}}).has_value());
}

TEST(Ranks, OpenMpiOnOneMachine) {
  expect_rank({{"OMPI_COMM_WORLD_RANK", "3"},
               {"OMPI_COMM_WORLD_SIZE", "4"},
               {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}},
              3, 4, "127.0.0.1", 0, "Open MPI");
}

TEST(Ranks, OpenMpiOnSeveralMachinesDoesNotTellTheRoot) {
  expect_rank({{"OMPI_COMM_WORLD_RANK", "3"},
               {"OMPI_COMM_WORLD_SIZE", "4"},
               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
              3, 4, "", 0, "Open MPI");
}

TEST(Ranks, Pmi) {
  expect_rank({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}}, 1, 2, "127.0.0.1",
              0, "PMI");
  expect_rank({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, 1, 2, "", 0, "PMI");
}

/// The node from which srun was called (SLURM_LAUNCH_NODE_IPADDR) may be none of theirs.
TEST(Ranks, SlurmTellsTheNodesOfTheStep) {
  const auto root_of = [](const char* nodes) {
    return rank_in({{"SLURM_PROCID", "5"},
                    {"SLURM_NTASKS", "8"},
                    {"SLURM_STEP_NUM_TASKS", "8"},
                    {"SLURM_NNODES", "2"},
                    {"SLURM_STEP_NUM_NODES", "2"},
                    {"SLURM_STEP_NODELIST", nodes},
                    {"SLURM_LAUNCH_NODE_IPADDR", "192.0.2.7"}})
        ->root;
  };
  EXPECT_EQ(root_of("node1,node2"), "node1");
  EXPECT_EQ(root_of("gpu[07-09,12]"), "gpu07");
  EXPECT_EQ(root_of("rack[2,4]gpu[1-3]-ib,login"), "rack2gpu1-ib");
  EXPECT_EQ(root_of("gpu["), "gpu");
}

TEST(Ranks, ABatchScriptOfSlurmIsNoRank) {
  EXPECT_FALSE(
      rank_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "17"}}).has_value());
}

TEST(Ranks, SlurmOnOneNode) {
  expect_rank({{"SLURM_PROCID", "1"},
               {"SLURM_STEP_NUM_TASKS", "2"},
               {"SLURM_NNODES", "1"},
               {"SLURM_LAUNCH_NODE_IPADDR", "192.0.2.7"}},
              1, 2, "127.0.0.1", 0, "Slurm");
}

TEST(Ranks, TorchrunTellsAddressAndPort) {
  expect_rank(
      {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}}, 2,
      4, "node0", 29500, "torchrun");
}

TEST(Ranks, ThePortOfTorchrunsAgentIsLeftAlone) {
  expect_rank({{"RANK", "0"},
               {"WORLD_SIZE", "2"},
               {"MASTER_ADDR", "node0"},
               {"MASTER_PORT", "29500"},
               {"TORCHELASTIC_USE_AGENT_STORE", "True"}},
              0, 2, "node0", 0, "torchrun");
}

TEST(Ranks, TheInnermostLauncherCounts) {
  expect_rank({{"SLURM_PROCID", "0"},
               {"SLURM_NTASKS", "1"},
               {"OMPI_COMM_WORLD_RANK", "3"},
               {"OMPI_COMM_WORLD_SIZE", "4"},
               {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}},
              3, 4, "127.0.0.1", 0, "Open MPI");
}

TEST(Ranks, RefusesWhatCannotBe) {
  const auto refused = [](const char* number, const char* count) {
    return Variables{{"RANK", number}, {"WORLD_SIZE", count}};
  };
  for (const auto& [number, count] : std::map<const char*, const char*>{
           {"4", "4"}, {"x", "4"}, {"", "4"}, {"1 ", "4"}, {"-1", "4"}, {"0", "0"}, {"1", "129"}}) {
    EXPECT_THROW(rank_in(refused(number, count)), lab::BadEnvironment) << number << " of " << count;
  }
  EXPECT_THROW(
      rank_in(
          {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "70000"}}),
      lab::BadEnvironment);
}

}  // namespace
