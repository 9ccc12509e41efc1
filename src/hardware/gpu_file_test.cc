#include "hardware/gpu_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace plimsoll {
namespace {

using testing::HasSubstr;

// A whole file; the tests change one line of it.
std::string gpu_text() {
  return R"(name = "test-gpu"
title = "A GPU of the tests"
aliases = ["tester"]
vendor = "nvidia"
architecture = "sm_90"

[sources]
sheet = "a data sheet"
seen = "an OOM message"

[memory]
nominal_gib = { value = 80, source = "sheet" }
usable_gib = { value = 79.25, source = "seen" }
bandwidth_gb_per_s = { value = 3352, source = "sheet" }
context_mib = { value = 512, source = "sheet", estimate = true }
cublas_workspace_bytes = { value = 8519680, source = "sheet" }

[compute]
multiprocessors = { value = 132, source = "sheet" }
fp32_tflop_per_s = { value = 67, source = "sheet" }
fp16_tflop_per_s = { value = 989.5, source = "sheet" }

[scale_up]
kind = "nvlink"
topology = "switch"
nominal_gb_per_s = { value = 450, source = "sheet" }
domain_gpus = { value = 8, source = "sheet" }

[pcie]
generation = { value = 5, source = "sheet" }
lanes = { value = 16, source = "sheet" }
nominal_gb_per_s = { value = 63, source = "sheet" }
)";
}

std::string with(const std::string& before, const std::string& after) {
  std::string text = gpu_text();
  const size_t at = text.find(before);
  EXPECT_NE(at, std::string::npos) << before;
  return text.replace(at, before.size(), after);
}

std::string error_of(const std::string& text) {
  const Result<Gpu> gpu = parse_gpu(text, "my.toml");
  return gpu ? "no error" : gpu.error().to_text();
}

TEST(GpuFile, QuantitiesHaveTheUnitOfTheirKey) {
  const Result<Gpu> gpu = parse_gpu(gpu_text(), "my.toml");
  ASSERT_TRUE(gpu) << gpu.error().to_text();
  EXPECT_EQ(gpu->nominal_memory, kGiB * 80);
  EXPECT_EQ(gpu->usable_memory, kMiB * (79 * 1024 + 256));
  EXPECT_EQ(gpu->context, kMiB * 512);
  EXPECT_EQ(gpu->cublas_workspace, Bytes{8519680});
  EXPECT_EQ(gpu->memory_bandwidth, kGigabytePerSecond * 3352);
  EXPECT_EQ(gpu->peak(Arithmetic::kFloat16), FlopsPerSecond{989'500'000'000'000});
  EXPECT_EQ(gpu->peak(Arithmetic::kFloat4), std::nullopt);
  EXPECT_EQ(gpu->scale_up->link.nominal, kGigabytePerSecond * 450);
  EXPECT_EQ(&gpu->host.for_copies(), &gpu->host.pcie);
}

TEST(GpuFile, EveryNumberKeepsItsSource) {
  const Result<Gpu> gpu = parse_gpu(gpu_text(), "my.toml");
  ASSERT_TRUE(gpu);
  EXPECT_EQ(gpu->facts.size(), 13);
  const Fact* context = find_fact(gpu->facts, "memory.context_mib");
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(context->source, "a data sheet");
  EXPECT_TRUE(context->is_estimate);
  EXPECT_FALSE(find_fact(gpu->facts, "memory.usable_gib")->is_estimate);
}

TEST(GpuFile, UnknownKeyIsRefusedWithItsPlace) {
  EXPECT_EQ(error_of(with("vendor", "colour = \"green\"\nvendor")),
            "my.toml:4:1, key \"colour\": is not a key of this file");
}

TEST(GpuFile, AnotherUnitIsRefusedAndTheRightOneTold) {
  const std::string error = error_of(with("context_mib", "context_gib"));
  EXPECT_THAT(error, HasSubstr("key \"memory.context_mib\": is missing"));
  EXPECT_THAT(error_of(with("[compute]", "context_gib = { value = 1, source = \"sheet\" }\n[compute]")),
              HasSubstr("hint: the key is \"memory.context_mib\": its unit is MiB"));
}

TEST(GpuFile, DecimalUnitsOfMemoryAreNotTakenForBinaryOnes) {
  for (const char* key : {"nominal_gb", "nominal_bytes", "nominal_mib"})
    EXPECT_THAT(
        error_of(with("[compute]", std::string(key) + " = { value = 80, source = \"sheet\" }\n[compute]")),
        HasSubstr("hint: the key is \"memory.nominal_gib\": its unit is GiB"))
        << key;
}

TEST(GpuFile, MissingKeyIsNamed) {
  EXPECT_EQ(error_of(with("nominal_gib = { value = 80, source = \"sheet\" }", "")),
            "my.toml, key \"memory.nominal_gib\": is missing\n  expected: a number in GiB");
  EXPECT_THAT(error_of(with("name = \"test-gpu\"", "")), HasSubstr("key \"name\": is missing"));
}

TEST(GpuFile, NumberWithoutASourceIsRefused) {
  EXPECT_THAT(error_of(with("{ value = 132, source = \"sheet\" }", "132")),
              HasSubstr("my.toml:19:1, key \"compute.multiprocessors\": has no source"));
  EXPECT_THAT(error_of(with("{ value = 132, source = \"sheet\" }", "{ value = 132 }")),
              HasSubstr("key \"compute.multiprocessors.source\": is missing"));
  EXPECT_THAT(error_of(with("{ value = 132, source = \"sheet\" }", "{ value = 132, source = \"web\" }")),
              HasSubstr("names \"web\", which is not in [sources]"));
  EXPECT_THAT(error_of(with("sheet = \"a data sheet\"", "sheet = \"a data sheet\"\nother = \"page\"")),
              HasSubstr("my.toml:9:1, key \"sources.other\": is a source that no number names"));
}

TEST(GpuFile, AbsurdNumbersAreRefused) {
  EXPECT_THAT(error_of(with("value = 79.25", "value = 79250")),
              HasSubstr("79250 can't be right\n  expected: from 1 to 4096 GiB"));
  EXPECT_THAT(error_of(with("value = 79.25", "value = 85094039552")),
              HasSubstr("from 1 to 4096 GiB"));  // bytes
  EXPECT_THAT(error_of(with("value = 79.25", "value = -79.25")), HasSubstr("-79.25 can't be right"));
  EXPECT_THAT(error_of(with("value = 512", "value = 536870912")), HasSubstr("can't be right"));
  EXPECT_THAT(error_of(with("value = 3352", "value = 3352000000000")), HasSubstr("can't be right"));
  EXPECT_THAT(error_of(with("value = 79.25", "value = nan")), HasSubstr("nan can't be right"));
  EXPECT_THAT(error_of(with("value = 79.25", "value = -inf")), HasSubstr("can't be right"));
  EXPECT_THAT(error_of(with("value = 132", "value = 13.5")), HasSubstr("is no whole number"));
  EXPECT_THAT(error_of(with("value = 132", "value = \"132\"")), HasSubstr("is no number"));
}

TEST(GpuFile, NumbersMustAgreeWithEachOther) {
  EXPECT_THAT(error_of(with("value = 79.25", "value = 80.5")), HasSubstr("is more than the nominal memory"));
  EXPECT_THAT(error_of(with("[compute]", "most_usable_gib = { value = 79, source = \"seen\" }\n[compute]")),
              HasSubstr("is less than usable_gib"));
  EXPECT_THAT(error_of(gpu_text() + "usable_gb_per_s = { value = 64, source = \"sheet\" }\n"),
              HasSubstr("is more than the wire carries"));
}

TEST(GpuFile, WordsAreOfAClosedSet) {
  EXPECT_THAT(
      error_of(with("\"switch\"", "\"star\"")),
      HasSubstr("key \"scale_up.topology\": is not a word known here\n  expected: switch, mesh or bridge"));
  EXPECT_THAT(error_of(with("\"nvlink\"", "\"pcie\"")), HasSubstr("is no link between GPUs"));
}

TEST(GpuFile, BrokenTomlIsRefusedWithItsPlace) {
  EXPECT_THAT(error_of("name = \"a\nb\""), HasSubstr("my.toml:1:"));
  EXPECT_THAT(error_of(with("[\"tester\"]", "[1, 2]")), HasSubstr("holds something else than strings"));
  EXPECT_THAT(error_of(with("\"tester\"]", "\"tester\"]\nborn = 2022-03-22")),
              HasSubstr("is a date or a time"));
  EXPECT_THAT(error_of(with("vendor", "\"a.b\" = 1\nvendor")), HasSubstr("is no key of ours"));
  EXPECT_THAT(error_of(with("[compute]", "[empty]\n[compute]")),
              HasSubstr("key \"empty\": is an empty table"));
}

TEST(GpuFile, HostileSizesAreRefused) {
  EXPECT_THAT(error_of(std::string(300'000, '#')), HasSubstr("has 300000 bytes"));
  std::string deep = "\na";
  for (int i = 0; i < 100'000; ++i) deep += ".a";
  EXPECT_THAT(error_of(deep + " = 1"), HasSubstr("my.toml:2: has 200005 bytes in one line"));
  std::string many;
  for (int i = 0; i < 5000; ++i) many += "k" + std::to_string(i) + " = 1\n";
  EXPECT_THAT(error_of(many), HasSubstr("is the value after the first 2000"));
}

}  // namespace
}  // namespace plimsoll
