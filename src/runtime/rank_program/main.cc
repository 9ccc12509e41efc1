// One rank of a job for the tests of communication and launching: rank_program (RANKS | -) TASK
// [ARGUMENT...]. With a number of ranks it starts them, with - it is one.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/communication/gloo.h"
#include "runtime/communication/texts.h"
#include "runtime/launch/local_ranks.h"
#include "runtime/launch/process_place.h"
#include "runtime/tiny_run.h"

namespace plimsoll::runtime {
namespace {

using Arguments = std::vector<std::string>;

tl::unexpected<Error> wrong(const std::string& what) { return fail({.message = what}); }

// Values whose fp32 sum depends on the order of its terms.
at::Tensor values_of(int64_t rank, int64_t n, at::ScalarType dtype) {
  auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(100 + rank));
  return at::randn({n}, generator, at::TensorOptions(at::kFloat)).mul_(1 + 1000 * (rank % 2)).to(dtype);
}
at::Tensor sum_of(int64_t ranks, int64_t n, at::ScalarType dtype) {
  const at::ScalarType added = dtype == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor sum = values_of(0, n, dtype).to(added);
  for (int64_t r = 1; r < ranks; ++r) sum.add_(values_of(r, n, dtype).to(added));
  return sum.to(dtype);
}

Result<void> check_sums(Communicator& c, int64_t part, at::ScalarType dtype) {
  const int64_t n = part * c.size();
  const at::Tensor expected = sum_of(c.size(), n, dtype);
  at::Tensor all = values_of(c.rank(), n, dtype), whole = all.clone();
  at::Tensor own = at::empty({part}, dtype), gathered = at::empty({n}, dtype);
  const auto scattering = c.reduce_scatter(own, whole);
  const auto reducing = c.all_reduce(all);
  PLIMSOLL_CHECK(scattering->wait());
  PLIMSOLL_CHECK(reducing->wait());
  PLIMSOLL_CHECK(c.all_gather(gathered, own)->wait());
  at::Tensor slice = gathered.narrow(0, c.rank() * part, part).clone();
  gathered.narrow(0, c.rank() * part, part).copy_(own);
  at::Tensor in_place = gathered.narrow(0, c.rank() * part, part);
  PLIMSOLL_CHECK(c.all_gather(gathered, in_place)->wait());
  if (!all.equal(expected)) return wrong(fmt::format("all_reduce of {}", n));
  if (!own.equal(expected.narrow(0, c.rank() * part, part)) || !own.equal(slice))
    return wrong(fmt::format("reduce_scatter of {}", n));
  if (!gathered.equal(expected)) return wrong(fmt::format("all_gather of {}", n));
  return {};
}

Result<void> sums(Communicator& c, const Arguments&) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16})
    for (const int64_t part : {1, 5, 1000, 4097, 300001}) PLIMSOLL_CHECK(check_sums(c, part, dtype));
  at::Tensor uneven = values_of(c.rank(), 10007, at::kFloat);
  PLIMSOLL_CHECK(c.all_reduce(uneven)->wait());
  if (!uneven.equal(sum_of(c.size(), 10007, at::kFloat))) return wrong("uneven all_reduce");
  return {};
}

// Rank 1 calls another collective than the others.
Result<void> differ(Communicator& c, const Arguments&) {
  at::Tensor t = at::ones({c.rank() == 1 ? 8 : 4}, at::kFloat);
  return c.all_reduce(t)->wait();
}

// All reduce on and on, until the last rank leaves by `how`.
Result<void> lose(Communicator& c, const Arguments& arguments) {
  at::Tensor t = at::ones({1 << 20}, at::kFloat);
  for (int i = 0; i < 5; ++i) PLIMSOLL_CHECK(c.all_reduce(t)->wait());
  const std::string& how = arguments.at(0);
  if (c.rank() == c.size() - 1) {
    if (how == "kill") kill(getpid(), SIGKILL);
    if (how == "exit") _exit(3);
    if (how == "sleep") std::this_thread::sleep_for(std::chrono::seconds(60));
  }
  while (true) PLIMSOLL_CHECK(c.all_reduce(t)->wait());
}

// One rank is killed while the others compute.
Result<void> compute(Communicator& c, const Arguments& arguments) {
  constexpr auto kMoment = std::chrono::milliseconds(50);
  constexpr int kMoments = 1200;  // a minute
  PLIMSOLL_CHECK(meet(c));
  std::this_thread::sleep_for(4 * kMoment);
  if (c.rank() == std::stoll(arguments.at(0))) kill(getpid(), SIGKILL);
  for (int i = 0; i < kMoments; ++i) {
    if (std::optional<Error> failure = c.failure()) return fail(*std::move(failure));
    std::this_thread::sleep_for(kMoment);
  }
  return {};
}

Result<void> bandwidth(Communicator& c, const Arguments&) {
  constexpr int64_t kElements = int64_t{1} << 24;  // 64 MiB
  at::Tensor whole = at::ones({kElements}, at::kFloat);
  at::Tensor part = at::ones({kElements / c.size()}, at::kFloat);
  const std::map<std::string, std::function<std::unique_ptr<Work>()>> all{
      {"all_gather", [&] { return c.all_gather(whole, part); }},
      {"reduce_scatter", [&] { return c.reduce_scatter(part, whole); }},
      {"all_reduce", [&] { return c.all_reduce(whole); }}};
  for (const auto& [name, call] : all) {
    PLIMSOLL_CHECK(call()->wait());
    constexpr int kRepeats = 10;
    double best = 1e9, cpu = 0;
    for (int i = 0; i < kRepeats; ++i) {
      const auto start = std::chrono::steady_clock::now();
      const clock_t cpu_start = clock();
      PLIMSOLL_CHECK(call()->wait());
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      cpu += static_cast<double>(clock() - cpu_start) / CLOCKS_PER_SEC / kRepeats;
    }
    if (c.rank() == 0)
      fmt::print("{} ranks {}: best {:.0f} ms, cpu {:.0f} ms\n", c.size(), name, best * 1e3, cpu * 1e3);
  }
  return {};
}

// Errors: a phase whose measured peak is not the predicted one.
Result<void> play(Communicator& c, const Arguments& settings) {
  PLIMSOLL_TRY(run, play_tiny(c, settings, 3, {.evaluates = true}));
  if (c.rank() == 0)
    for (const StepReport& step : run.steps) fmt::print("{:.9f} {:.9f}\n", step.loss, step.gradient_norm);
  int64_t times = 0;
  for (const PhaseMemoryReport& phase : run.memory) {
    times += phase.times;
    if (phase.times_different > 0)
      return wrong(fmt::format("{}: predicted {}, measured {}", phase.phase,
                               phase.predicted.device().total.value, phase.measured[0].total.value));
  }
  if (times == 0) return wrong("no phase was measured");
  return meet(c);
}

int64_t seconds_to_start() {
  const char* const seconds = std::getenv("START_SECONDS");
  return seconds ? std::stoll(seconds) : 60;
}

Result<void> be_rank(const std::string& task, const Arguments& arguments) {
  const std::map<std::string, Result<void> (*)(Communicator&, const Arguments&)> tasks{
      {"sums", sums},           {"differ", differ}, {"lose", lose},  {"compute", compute},
      {"bandwidth", bandwidth}, {"play", play},     {"absent", sums}};
  PLIMSOLL_TRY(place, detect_process_place(environment()));
  if (task == "absent" && place.rank == 1) return {};
  // The launcher would end the others at once: these tests are about what they notice.
  if (std::getenv("WAITS_FOR_OTHERS")) std::signal(SIGTERM, SIG_IGN);
  MeasuredAllocator::install();
  at::set_num_threads(1);
  GlooOptions options{.start_timeout = std::chrono::seconds(task == "absent" ? 2 : seconds_to_start()),
                      .timeout = std::chrono::seconds(task == "lose" ? 3 : 60),
                      .may_read_directly = std::getenv("ONLY_MESSAGES") == nullptr};
  PLIMSOLL_TRY(communicator, make_gloo_communicator(place, options));
  return tasks.at(task)(*communicator, arguments);
}

int report(const Error& error) {
  fmt::print(stderr, "{}\n", error.to_text());
  return 4;
}

int run(const Arguments& all) {
  if (all.at(0) != "-") {
    Arguments rest(all.begin() + 1, all.end());
    rest.insert(rest.begin(), "-");
    const Result<int> code =
        run_local_ranks({.program = "/proc/self/exe",
                         .arguments = rest,
                         .ranks = std::stoll(all[0]),
                         .grace = std::chrono::seconds(std::getenv("WAITS_FOR_OTHERS") ? 20 : 2)});
    return code ? *code : report(code.error());
  }
  const Result<void> done = be_rank(all.at(1), Arguments(all.begin() + 2, all.end()));
  return done ? 0 : report(done.error());
}

}  // namespace
}  // namespace plimsoll::runtime

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  return plimsoll::runtime::run({argv + 1, argv + argc});
}
