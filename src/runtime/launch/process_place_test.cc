#include "runtime/launch/process_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::runtime {
namespace {

using testing::HasSubstr;

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) environment.insert_or_assign(name, value);
  return environment;
}

const Environment kTorch{{"RANK", "5"},
                         {"WORLD_SIZE", "8"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_WORLD_SIZE", "4"},
                         {"MASTER_ADDR", "node1"},
                         {"MASTER_PORT", "29500"}};
const Environment kTorchRun = with(kTorch, {{"TORCHELASTIC_RUN_ID", "none"},
                                            {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                            {"TORCHELASTIC_RESTART_COUNT", "2"}});
const Environment kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Environment kMpich{
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
const Environment kBatchScript{{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"},
                               {"SLURM_NTASKS", "6"}, {"SLURM_NODEID", "0"}, {"SLURM_NNODES", "3"}};
const Environment kSlurm = with(kBatchScript, {{"SLURM_STEP_ID", "0"},
                                               {"SLURM_PROCID", "5"},
                                               {"SLURM_LOCALID", "0"},
                                               {"SLURM_NODEID", "2"},
                                               {"SLURM_STEP_NUM_TASKS", "6"},
                                               {"SLURM_STEP_NUM_NODES", "3"},
                                               {"SLURM_STEP_TASKS_PER_NODE", "2(x2),2"},
                                               {"MASTER_ADDR", "node1"},
                                               {"MASTER_PORT", "29501"}});

struct Case {
  std::string name;
  Environment environment;
  std::string launcher;
  int64_t rank, size, local_rank, local_size;
};
class Places : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Launchers, Places,
    testing::Values(
        Case{"alone", {{"HOME", "/"}}, "", 0, 1, 0, 1}, Case{"by_hand", kTorch, "torchrun", 5, 8, 1, 4},
        Case{"torchrun", kTorchRun, "torchrun", 5, 8, 1, 4},
        Case{"plimsoll", with(kTorch, {{"PLIMSOLL_STORE", "/tmp/x"}}), "plimsoll", 5, 8, 1, 4},
        Case{"open_mpi", kOpenMpi, "mpirun", 1, 2, 1, 2}, Case{"mpich", kMpich, "mpiexec", 1, 2, 1, 2},
        Case{"srun", kSlurm, "srun", 5, 6, 0, 2},
        Case{"srun_with_pmi", with(kSlurm, {{"PMI_RANK", "5"}, {"PMI_SIZE", "6"}}), "srun", 5, 6, 0, 2},
        Case{"srun_outside_a_job",
             {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "1"}},
             "srun",
             1,
             2,
             1,
             2},
        Case{"batch_script", kBatchScript, "", 0, 1, 0, 1},
        Case{"mpirun_in_a_batch_script", with(kBatchScript, kOpenMpi), "mpirun", 1, 2, 1, 2},
        Case{"mpirun_whose_daemons_are_a_step", with(kSlurm, kOpenMpi), "mpirun", 1, 2, 1, 2},
        Case{"torchrun_in_srun", with(kSlurm, kTorchRun), "torchrun", 5, 8, 1, 4},
        Case{"exported_by_the_batch_script_for_each_task",
             with(kSlurm,
                  {{"RANK", "5"}, {"WORLD_SIZE", "6"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}}),
             "torchrun", 5, 6, 1, 2}),
    [](const auto& i) { return i.param.name; });

TEST_P(Places, AreWhatTheLauncherSays) {
  const Case& c = GetParam();
  const Result<ProcessPlace> place = detect_process_place(c.environment);
  ASSERT_TRUE(place) << place.error().to_text();
  EXPECT_EQ(place->launcher, c.launcher);
  EXPECT_EQ(place->rank, c.rank);
  EXPECT_EQ(place->size, c.size);
  EXPECT_EQ(place->local_rank, c.local_rank);
  EXPECT_EQ(place->local_size, c.local_size);
}

TEST(Rendezvous, OfTorchrunIsTheAgentsWithAPrefixForEachAttempt) {
  const auto tcp = std::get<TcpRendezvous>(detect_process_place(kTorchRun)->rendezvous);
  EXPECT_EQ(tcp.host, "node1");
  EXPECT_EQ(tcp.port, 29500);
  EXPECT_TRUE(tcp.has_server);
  EXPECT_EQ(tcp.prefix, "attempt_2");
  EXPECT_FALSE(std::get<TcpRendezvous>(detect_process_place(kTorch)->rendezvous).has_server);
}

TEST(Rendezvous, OnOneMachineNeedsNoAddressAndJobsDontShareAPort) {
  const auto of_job = [](const std::string& job) {
    return std::get<TcpRendezvous>(
        detect_process_place(with(kOpenMpi, {{"PMIX_NAMESPACE", job}}))->rendezvous);
  };
  EXPECT_EQ(of_job("11.1").host, "127.0.0.1");
  EXPECT_EQ(of_job("11.1").port, of_job("11.1").port);
  EXPECT_NE(of_job("11.1").port, of_job("12.1").port);
}

struct Wrong {
  std::string name;
  Environment environment;
  std::string key, message;
};
class WrongPlaces : public testing::TestWithParam<Wrong> {};
INSTANTIATE_TEST_SUITE_P(
    Environments, WrongPlaces,
    testing::Values(
        Wrong{"rank_only", {{"RANK", "0"}}, "WORLD_SIZE", "WORLD_SIZE is missing"},
        Wrong{"size_only", {{"WORLD_SIZE", "2"}}, "RANK", "RANK is missing"},
        Wrong{"no_local_rank", with(kTorch, {{"LOCAL_RANK", ""}}), "LOCAL_RANK", "LOCAL_RANK is missing"},
        Wrong{"rank_past_the_end", with(kTorch, {{"RANK", "8"}}), "RANK", "RANK is \"8\""},
        Wrong{"no_number", with(kTorch, {{"WORLD_SIZE", "8x"}}), "WORLD_SIZE", "WORLD_SIZE is \"8x\""},
        Wrong{"no_port", with(kTorch, {{"MASTER_PORT", ""}}), "MASTER_PORT", "MASTER_PORT is missing"},
        Wrong{"port_out_of_range", with(kTorch, {{"MASTER_PORT", "65536"}}), "MASTER_PORT", "is \"65536\""},
        Wrong{"no_address", with(kSlurm, {{"MASTER_ADDR", ""}}), "MASTER_ADDR", "MASTER_ADDR is missing"},
        Wrong{"no_local_size", with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", ""}}),
              "OMPI_COMM_WORLD_LOCAL_SIZE", "is missing"},
        Wrong{"nodes_without_tasks", with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "2"}}),
              "SLURM_STEP_TASKS_PER_NODE", "how many tasks node 2 has"},
        Wrong{"malformed_tasks_0", with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(x"}}),
              "SLURM_STEP_TASKS_PER_NODE", "how many tasks node 2 has"},
        Wrong{"malformed_tasks_1", with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(x2"}}),
              "SLURM_STEP_TASKS_PER_NODE", "how many tasks node 2 has"},
        Wrong{"malformed_tasks_2", with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(x2)2"}}),
              "SLURM_STEP_TASKS_PER_NODE", "how many tasks node 2 has"},
        Wrong{"malformed_tasks_3", with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "(x2),2"}}),
              "SLURM_STEP_TASKS_PER_NODE", "how many tasks node 2 has"},
        Wrong{"malformed_tasks_4", with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "2,,2"}}),
              "SLURM_STEP_TASKS_PER_NODE", "how many tasks node 2 has"},
        Wrong{"malformed_tasks_5", with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "x"}}),
              "SLURM_STEP_TASKS_PER_NODE", "how many tasks node 2 has"},
        Wrong{"every_rank_would_be_rank_0",
              with(kOpenMpi,
                   {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}}),
              "RANK", "RANK=0 of WORLD_SIZE=2, but OMPI_COMM_WORLD_RANK=1 of OMPI_COMM_WORLD_SIZE=2"},
        Wrong{"every_rank_would_be_alone",
              with(kOpenMpi,
                   {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}}),
              "RANK", "RANK=0 of WORLD_SIZE=1, but"}),
    [](const auto& i) { return i.param.name; });

TEST_P(WrongPlaces, AreErrorsThatNameTheVariable) {
  const Result<ProcessPlace> place = detect_process_place(GetParam().environment);
  ASSERT_FALSE(place);
  EXPECT_EQ(place.error().position.key, GetParam().key);
  EXPECT_THAT(place.error().message, HasSubstr(GetParam().message));
}

}  // namespace
}  // namespace plimsoll::runtime
