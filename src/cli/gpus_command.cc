#include "cli/gpus_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/text_table.h"
#include "hardware/catalog.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

std::string tflops(const std::optional<FlopsPerSecond>& rate) {
  return rate ? fmt::format("{:.0f}", static_cast<double>(rate->value) / 1e12) : "-";
}

std::string catalog_text(const std::vector<Gpu>& gpus) {
  TextTable table(
      {"name", "usable", "context", "bf16 TFLOP/s", "memory GB/s", "usual node", "what"},
      {Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kLeft, Align::kLeft});
  for (const Gpu& gpu : gpus)
    table.add({gpu.name, to_gib_text(gpu.usable_memory), to_gib_text(gpu.context),
               tflops(gpu.peak(Arithmetic::kBFloat16)),
               fmt::format("{:.0f}", static_cast<double>(gpu.memory_bandwidth.value) / 1e9),
               gpu.default_cluster.value_or("-"), gpu.title});
  return table.to_text();
}

std::string catalog_json(const std::vector<Gpu>& gpus) {
  Json list = Json::array();
  for (const Gpu& gpu : gpus)
    list.push_back({{"name", gpu.name},
                    {"title", gpu.title},
                    {"aliases", gpu.aliases},
                    {"nominal_bytes", gpu.nominal_memory.value},
                    {"usable_bytes", gpu.usable_memory.value},
                    {"context_bytes", gpu.context.value},
                    {"cluster", gpu.default_cluster ? Json(*gpu.default_cluster) : Json()}});
  return list.dump(2) + "\n";
}

// One GPU with the source of each of its numbers.
std::string gpu_text(const Gpu& gpu) {
  std::string text = fmt::format("{}: {}\n", gpu.name, gpu.title);
  if (!gpu.aliases.empty()) text += fmt::format("  also called {}\n", fmt::join(gpu.aliases, ", "));
  TextTable table({"fact", "value", "source"}, {Align::kLeft, Align::kRight, Align::kLeft});
  for (const Fact& fact : gpu.facts)
    table.add(
        {fact.key, fmt::format("{}", fact.value), (fact.is_estimate ? "estimate; " : "") + fact.source});
  return text + table.to_text(2);
}

class GpusCommand final : public Command {
 public:
  std::string_view name() const override { return "gpus"; }
  std::string_view summary() const override { return "Lists the GPUs of the catalog, or the facts of one"; }

  std::vector<Argument> arguments() override {
    return {{.name = "NAME", .help = "a GPU or a file: its facts with their sources", .target = &gpu_},
            {.name = "--json", .help = "the list as JSON", .target = &as_json_}};
  }

  Result<int> run() override {
    std::vector<Gpu> gpus;
    if (gpu_) {
      PLIMSOLL_TRY(gpu, find_gpu(*gpu_));
      gpus.push_back(std::move(gpu));
    } else {
      PLIMSOLL_TRY(all, list_gpus());
      gpus = std::move(all);
    }
    const std::string text = as_json_ ? catalog_json(gpus) : gpu_ ? gpu_text(gpus[0]) : catalog_text(gpus);
    print_answer(text, as_json_);
    return kAnswered;
  }

 private:
  std::optional<std::string> gpu_;
  bool as_json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_gpus_command() { return std::make_unique<GpusCommand>(); }

}  // namespace plimsoll
