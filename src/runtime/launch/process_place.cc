#include "runtime/launch/process_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

extern "C" char** environ;  // NOLINT(readability-redundant-declaration): not in every <unistd.h>

namespace plimsoll::runtime {
namespace {

// The variables in which a launcher says where a process is.
struct Dialect {
  std::string launcher;
  std::string rank, size, local_rank, local_size;  // names; srun says local_size in another way
  std::string hint;
};

const std::vector<Dialect>& dialects() {
  static const std::vector<Dialect> all{
      {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
       "torchrun sets RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE: set all four or none"},
      {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_LOCAL_SIZE", "start the ranks with Open MPI's mpirun"},
      {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
       "start the ranks with mpiexec of MPICH or Intel MPI"},
      {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "", "start the ranks with srun"},
  };
  return all;
}

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  std::optional<std::string> text(const std::string& name) const {
    const auto found = environment_.find(name);
    if (found == environment_.end() || found->second.empty()) return std::nullopt;
    return found->second;
  }
  bool has(const std::string& name) const { return text(name).has_value(); }

  Result<int64_t> number(const std::string& name, int64_t lowest, int64_t highest,
                         const std::string& hint) const {
    const std::optional<std::string> value = text(name);
    if (!value) return wrong(name, fmt::format("{} is missing", name), lowest, highest, hint);
    int64_t parsed = 0;
    const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), parsed);
    if (error != std::errc{} || end != value->data() + value->size() || parsed < lowest || parsed > highest)
      return wrong(name, fmt::format("{} is \"{}\"", name, *value), lowest, highest, hint);
    return parsed;
  }

 private:
  static tl::unexpected<Error> wrong(const std::string& name, std::string what, int64_t lowest,
                                     int64_t highest, const std::string& hint) {
    return fail({.position = {.file = "environment", .key = name},
                 .message = std::move(what),
                 .expected = fmt::format("a whole number from {} to {}", lowest, highest),
                 .hint = hint});
  }
  const Environment& environment_;
};

constexpr int64_t kMostRanks = int64_t{1} << 20;

// SLURM_PROCID stands in a batch script too, which is no task: a task of a job has a step. srun sets PMI_RANK
// beside its own, without a local rank.
bool speaks(const Reader& env, const Dialect& d) {
  if (d.launcher == "srun") return env.has(d.rank) && (env.has("SLURM_STEP_ID") || !env.has("SLURM_JOB_ID"));
  if (d.launcher == "mpiexec" && env.has("SLURM_STEP_ID") && !env.has(d.local_rank)) return false;
  return env.has(d.rank) || env.has(d.size);
}

// Takes what a text begins with; empty, and false: something else is there.
std::optional<int64_t> take_number(std::string_view& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 1 || number > kMostRanks) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}
bool take(std::string_view& text, char wanted) {
  if (!text.starts_with(wanted)) return false;
  text.remove_prefix(1);
  return true;
}

// Tasks on this machine: "4(x2),3" for SLURM_STEP_TASKS_PER_NODE says it of each node in order.
Result<int64_t> slurm_local_size(const Reader& env, int64_t size) {
  const bool has_nodes = env.has("SLURM_STEP_NUM_NODES") || env.has("SLURM_NNODES");
  if (size == 1 || !has_nodes) return size;
  const char* const name = env.has("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES";
  PLIMSOLL_TRY(nodes, env.number(name, 1, size, "start the ranks with srun"));
  if (nodes == 1) return size;
  PLIMSOLL_TRY(node, env.number("SLURM_NODEID", 0, nodes - 1, "start the ranks with srun"));
  const std::string list = env.text("SLURM_STEP_TASKS_PER_NODE").value_or("");
  std::string_view left = list;
  int64_t first = 0;
  while (!left.empty()) {
    const std::optional<int64_t> tasks = take_number(left);
    const bool is_repeated = left.starts_with("(x");
    if (is_repeated) left.remove_prefix(2);
    const std::optional<int64_t> repeat = is_repeated ? take_number(left) : 1;
    if (!tasks || !repeat || (is_repeated && !take(left, ')'))) break;
    first += *repeat;
    if (node < first && *tasks <= size) return *tasks;
    if (!take(left, ',')) break;
  }
  return fail({.position = {.file = "environment", .key = "SLURM_STEP_TASKS_PER_NODE"},
               .message = fmt::format("\"{}\" does not say how many tasks node {} has", list, node),
               .expected = "counts such as \"4(x2),3\""});
}

Result<ProcessPlace> read(const Reader& env, const Dialect& d) {
  ProcessPlace place{.launcher = d.launcher};
  const bool is_step = d.launcher == "srun" && env.has("SLURM_STEP_NUM_TASKS");
  PLIMSOLL_TRY(size, env.number(is_step ? "SLURM_STEP_NUM_TASKS" : d.size, 1, kMostRanks, d.hint));
  PLIMSOLL_TRY(rank, env.number(d.rank, 0, size - 1, d.hint));
  Result<int64_t> local_size =
      d.local_size.empty() ? slurm_local_size(env, size) : env.number(d.local_size, 1, size, d.hint);
  if (!local_size) return tl::unexpected(local_size.error());
  PLIMSOLL_TRY(local_rank, env.number(d.local_rank, 0, *local_size - 1, d.hint));
  place.size = size;
  place.rank = rank;
  place.local_size = *local_size;
  place.local_rank = local_rank;
  return place;
}

// Variables exported to every rank by hand, such as RANK=0 under mpirun, would make each of them rank 0. A
// launcher that runs inside a task has more ranks than there are tasks, or is alone.
Result<void> check_agreement(const Reader& env, const Dialect& inner, const ProcessPlace& place) {
  const bool is_agent = env.has("TORCHELASTIC_RUN_ID") || env.has("PLIMSOLL_STORE");
  if (inner.launcher != "torchrun" || is_agent) return {};
  for (const Dialect& outer : dialects()) {
    if (&outer == &inner || !speaks(env, outer)) continue;
    PLIMSOLL_TRY(other, read(env, outer));
    const bool is_same = other.size == place.size && other.rank == place.rank;
    if (is_same || other.size == 1 || place.size > other.size) continue;
    return fail(
        {.position = {.file = "environment", .key = inner.rank},
         .message = fmt::format("{}={} of {}={}, but {}={} of {}={}", inner.rank, place.rank, inner.size,
                                place.size, outer.rank, other.rank, outer.size, other.size),
         .expected = "one launcher, or launchers that agree",
         .hint = fmt::format("unset {} and {} to be started by {}", inner.rank, inner.size, outer.launcher)});
  }
  return {};
}

// A job of its own number gets a port of its own, where nobody chose one.
uint16_t port_of_job(const Reader& env) {
  constexpr uint32_t kFirst = 20000, kCount = 10000;
  uint32_t hash = 2166136261U;  // FNV-1a
  for (const char* name : {"PMIX_NAMESPACE", "PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID"})
    for (const char c : env.text(name).value_or(""))
      hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return static_cast<uint16_t>(kFirst + hash % kCount);
}

Result<void> find_rendezvous(const Reader& env, ProcessPlace& place) {
  if (place.size == 1) return {};
  if (const auto path = env.text("PLIMSOLL_STORE")) {
    place.rendezvous = FileRendezvous{*path};
    place.launcher = "plimsoll";
    return {};
  }
  TcpRendezvous tcp;
  const bool chooses_itself = place.launcher != "torchrun" && place.is_on_one_machine();
  const std::optional<std::string> host = env.text("MASTER_ADDR");
  if (!host && !chooses_itself)
    return fail({.position = {.file = "environment", .key = "MASTER_ADDR"},
                 .message = "MASTER_ADDR is missing",
                 .expected = "the machine of rank 0",
                 .hint =
                     "under srun: export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head "
                     "-n1) MASTER_PORT=29500"});
  tcp.host = host.value_or("127.0.0.1");
  tcp.port = port_of_job(env);
  if (env.has("MASTER_PORT") || !chooses_itself) {
    constexpr int64_t kMostPorts = 65535;
    PLIMSOLL_TRY(port, env.number("MASTER_PORT", 1, kMostPorts, "export MASTER_PORT=29500"));
    tcp.port = static_cast<uint16_t>(port);
  }
  tcp.has_server = env.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  tcp.prefix = fmt::format("attempt_{}", env.text("TORCHELASTIC_RESTART_COUNT").value_or("0"));
  place.rendezvous = std::move(tcp);
  return {};
}

}  // namespace

Environment environment() {
  Environment all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

Result<ProcessPlace> detect_process_place(const Environment& environment) {
  const Reader env(environment);
  const auto inner =
      std::find_if(dialects().begin(), dialects().end(), [&](const Dialect& d) { return speaks(env, d); });
  if (inner == dialects().end()) return ProcessPlace{};
  PLIMSOLL_TRY(place, read(env, *inner));
  PLIMSOLL_CHECK(check_agreement(env, *inner, place));
  PLIMSOLL_CHECK(find_rendezvous(env, place));
  return place;
}

}  // namespace plimsoll::runtime
