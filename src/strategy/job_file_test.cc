#include "strategy/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "strategy/field.h"
#include "strategy/limits.h"

namespace plimsoll {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

std::string error_of(std::string_view toml) {
  const auto job = parse_job(toml, "job.toml");
  return job ? "no error" : job.error().to_text();
}

Job with(std::initializer_list<std::string_view> settings) {
  Job job;
  for (const std::string_view setting : settings)
    if (const auto done = apply_setting(job, setting); !done) ADD_FAILURE() << done.error().to_text();
  return job;
}

std::string setting_error(std::string_view setting) {
  Job job;
  const auto done = apply_setting(job, setting);
  return done ? "no error" : done.error().to_text();
}

TEST(JobFile, ReadsEverySection) {
  const auto job = parse_job(R"(
precision = "amp_bf16"
[model]
name = "gpt2"
layers = 4
overrides.vocab_size = 50304
[hardware]
gpu = "a100-80gb"
gpus = 16
[parallel]
engine = "ddp"
[ddp]
bucket_cap_mb = 50
[batch]
sequence = 1_024
accumulation = 4
[optimizer]
name = "sgd-momentum"
[recompute]
mode = "every-3"
[loop]
use_cache = "config"
clip_max_norm = 1
)",
                             "job.toml");
  ASSERT_TRUE(job) << job.error().to_text();
  EXPECT_EQ(job->precision, Precision::kAutocastBFloat16);
  EXPECT_EQ(job->model.layers, 4);
  EXPECT_THAT(job->model.overrides, testing::ElementsAre(testing::Pair("vocab_size", "50304")));
  EXPECT_EQ(job->engine, DataParallelEngine::kDdp);
  EXPECT_EQ(job->ddp.bucket_cap_mb, 50);
  EXPECT_EQ(job->batch, (BatchChoice{.sequence = 1024, .accumulation = 4}));
  EXPECT_EQ(job->optimizer.kind, OptimizerKind::kSgdMomentum);
  EXPECT_EQ(job->recompute, (Recompute{.kind = RecomputeKind::kEveryNth, .every_nth = 3}));
  EXPECT_EQ(job->loop.use_cache, UseCache::kConfig);
  EXPECT_EQ(job->loop.clip_max_norm, 1.0);
  EXPECT_TRUE(job->given.contains("hardware.gpus"));
  EXPECT_FALSE(job->given.contains("batch.micro_batch"));
}

TEST(JobFile, EmptyFileIsADefaultJob) { EXPECT_EQ(parse_job("", "job.toml"), Job{}); }

TEST(JobFile, UnknownKeysNameTheNearest) {
  EXPECT_EQ(error_of("[loss]\npaht = \"full\""),
            "job.toml:2:8, key \"loss.paht\": no such field in a job\n"
            "  expected: one of loss.path, loss.chunks\n"
            "  hint: did you mean loss.path?");
  EXPECT_THAT(error_of("sequence = 1"), HasSubstr("did you mean parallel.sequence or batch.sequence?"));
  EXPECT_THAT(error_of("sequence = 1"), HasSubstr("one of framework, precision, [model], [hardware]"));
  EXPECT_THAT(error_of("[batches]\nx = 1"), HasSubstr("job.toml:1:1, key \"batches\": no such field"));
  EXPECT_THAT(error_of("[batch]\nprecision = \"bf16\""), HasSubstr("did you mean precision"));
}

TEST(JobFile, WrongTypesAndRanges) {
  EXPECT_EQ(error_of("[batch]\nsequence = -1"),
            "job.toml:2:12, key \"batch.sequence\": -1 is out of range\n"
            "  expected: an integer from 1 to 134217728 (tokens)");
  EXPECT_THAT(error_of("[batch]\nsequence = \"4096\""), HasSubstr("is a string\n  expected: an integer"));
  EXPECT_THAT(error_of("[batch]\nsequence = 4096.0"), HasSubstr("is a number"));
  EXPECT_THAT(error_of("[batch]\nsequence = [1]"), HasSubstr("holds something else than texts"));
  EXPECT_THAT(error_of("[batch]\nsequence = {a = 1}"), HasSubstr("is a table"));
  EXPECT_THAT(error_of("[batch]\nsequence = 1979-05-27"), HasSubstr("is a date"));
  EXPECT_THAT(error_of("batch = 3"), HasSubstr("is a section"));
  EXPECT_THAT(error_of("[[batch]]\nsequence = 3"), HasSubstr("is a section"));
  EXPECT_THAT(error_of("[hardware]\ngpus = 99999999999999999999"), HasSubstr("job.toml:2"));
  EXPECT_THAT(error_of("[hardware]\ngpus = 9223372036854775807"), HasSubstr("out of range"));
  EXPECT_THAT(error_of("[loop]\nclip_max_norm = nan"), HasSubstr("nan is out of range"));
  EXPECT_THAT(error_of("[loop]\nclip_max_norm = 0"), HasSubstr("a number above 0"));
}

TEST(JobFile, BadChoicesListTheChoices) {
  EXPECT_EQ(error_of("[optimizer]\nname = \"adamv\""),
            "job.toml:2:8, key \"optimizer.name\": \"adamv\" is not one of the choices\n"
            "  expected: one of adamw, adamw-fused, adamw-loop, sgd, sgd-fused, sgd-loop, sgd-momentum, "
            "sgd-momentum-fused, sgd-momentum-loop, adafactor, adam8bit, lion, muon, none\n"
            "  hint: did you mean adamw?");
  EXPECT_THAT(error_of("[recompute]\nmode = \"every-1\""), HasSubstr("every-N"));
  EXPECT_THAT(error_of("[recompute]\nmode = \"every-99999999999999999999\""), HasSubstr("every-N"));
}

TEST(JobFile, AllMistakesAreReportedTogether) {
  EXPECT_EQ(error_of("[batch]\nsequence = 0\nmicro_batch = true\n"),
            "job.toml: 2 mistakes in the job file\n"
            "  1. job.toml:2:12, key \"batch.sequence\": 0 is out of range\n"
            "    expected: an integer from 1 to 134217728 (tokens)\n"
            "  2. job.toml:3:15, key \"batch.micro_batch\": is a boolean\n"
            "    expected: an integer from 1 to 1048576 (sequences)");
}

TEST(JobFile, MalformedToml) {
  EXPECT_THAT(error_of("[batch"), HasSubstr("job.toml:1:7"));
  EXPECT_THAT(error_of("a = \"\xff\xfe\""), HasSubstr("job.toml:1"));
  EXPECT_THAT(error_of("[batch]\nsequence = 1\nsequence = 2"), HasSubstr("job.toml:3"));
  EXPECT_THAT(error_of("a = " + std::string(100000, '[')), HasSubstr("job.toml:1"));
  EXPECT_THAT(error_of(std::string("\0\0\0", 3)), HasSubstr("job.toml:1"));
  EXPECT_THAT(error_of(std::string(kMaxJobFileBytes + 1, '#')), HasSubstr("is too large"));
  EXPECT_THAT(error_of("[model]\nname = \"" + std::string(5000, 'a') + "\""), HasSubstr("is too long"));
}

TEST(JobFile, LettersBeyondAsciiStandInTexts) {
  EXPECT_EQ(error_of("[model]\nname = \xE2\x80\x9Cgpt2\xE2\x80\x9D"),
            "job.toml:2:8: has the byte 0xE2 outside texts and comments\n"
            "  expected: TOML: letters that are not ASCII stand in texts, between \" or '");
  EXPECT_EQ(error_of("# \xC3\xA9\n[model]\nname = \"\\\"\xC3\xA9\" # \xC3\xA9\ngpu = 1"),
            error_of("\n[model]\nname = \"\\\"e\"\ngpu = 1"));
  EXPECT_TRUE(parse_job("\xEF\xBB\xBF[model]\nname = '''\n\xC3\xA9'\n'''", "job.toml"));
  EXPECT_THAT(error_of("[\x01"), HasSubstr("job.toml:1:2: has the byte 0x01"));
}

TEST(JobFile, FilesThatAreNone) {
  EXPECT_THAT(read_job_file("/nonexistent/job.toml").error().to_text(), HasSubstr("can't be opened"));
  EXPECT_THAT(read_job_file("/").error().to_text(), HasSubstr("is a folder"));
  const auto path = std::filesystem::temp_directory_path() / "plimsoll_job_file_test.toml";
  std::ofstream(path) << "[batch]\nsequence = 7";
  EXPECT_EQ(read_job_file(path)->batch.sequence, 7);
  std::filesystem::remove(path);
}

TEST(Setting, SetsAnyField) {
  const Job job = with({"batch.sequence=8192", "fsdp2.param_dtype=none", "recompute.kept_ops=mm, bmm",
                        "loop.hold_outputs=true", "loop.trainable=a=b", "loop.use_cache=true"});
  EXPECT_EQ(job.batch.sequence, 8192);
  EXPECT_EQ(job.fsdp2.param_dtype, std::nullopt);
  EXPECT_THAT(job.recompute.kept_ops, testing::ElementsAre("mm", "bmm"));
  EXPECT_TRUE(job.loop.hold_outputs);
  EXPECT_EQ(job.loop.trainable, "a=b");
  EXPECT_EQ(job.loop.use_cache, UseCache::kTrue);
}

// Found by the fuzzer: a command line holds any bytes, the file that is written of the job holds text only.
TEST(Setting, BytesThatAreNoTextAreRefused) {
  Job job;
  for (const char* setting :
       {"loop.trainable=\xd5", "model.name=a\xed\xa0\x80", "recompute.kept_ops=mm,\xff"}) {
    const auto done = apply_setting(job, setting);
    ASSERT_FALSE(done) << setting;
    EXPECT_THAT(done.error().to_text(), HasSubstr("holds bytes that are no text\n  expected: UTF-8"));
  }
  EXPECT_EQ(job, Job{});
}

TEST(Setting, DefaultResets) {
  const Job job = with({"batch.sequence=8192", "batch.sequence=default", "ddp.bucket_cap_mb=1",
                        "ddp.bucket_cap_mb=default", "loop.trainable=x", "loop.trainable="});
  EXPECT_EQ(job, Job{});
}

TEST(Setting, EveryFieldHasOneThatTakesItBack) {
  for (const Field& field : job_fields())
    EXPECT_EQ(field.get(with({reset_setting(field)})), field.get(Job{})) << field.text.path;
  const Job job = with({"recompute.kept_ops=mm", reset_setting(*find_field("recompute.kept_ops"))});
  EXPECT_EQ(job.recompute, Recompute{});
}

TEST(Setting, RecomputeModeLeavesTheKeptOps) {
  const Job job = with({"recompute.kept_ops=mm", "recompute.mode=selective"});
  EXPECT_EQ(job.recompute, (Recompute{.kind = RecomputeKind::kSelective, .kept_ops = {"mm"}}));
  EXPECT_THAT(with({"recompute.kept_ops=mm", "recompute.mode=default"}).recompute.kept_ops,
              testing::ElementsAre("mm"));
}

TEST(Setting, RefusesWhatItCannotRead) {
  EXPECT_THAT(setting_error("batch.sequence"), HasSubstr("is not an assignment"));
  EXPECT_THAT(setting_error("batch.sequence=4k"), AllOf(HasSubstr("--set, key \"batch.sequence\""),
                                                        HasSubstr("\"4k\" can't be read as an integer")));
  EXPECT_THAT(setting_error("batch.sequence=18446744073709551616"), HasSubstr("can't be read"));
  EXPECT_THAT(setting_error("loop.hold_outputs=yes"), HasSubstr("true or false"));
  EXPECT_THAT(setting_error("batch.seq=1"), HasSubstr("did you mean batch.sequence or"));
  EXPECT_THAT(setting_error("=1"), HasSubstr("is not an assignment"));
}

TEST(Overrides, KeepTheirJsonTypes) {
  const Job job = with({"model.overrides.sliding_window=null", "model.overrides.hidden_act=gelu_new",
                        "model.overrides.rope_scaling={type = \"linear\", factor = 2.0}",
                        "model.overrides.tie_word_embeddings=true", "model.overrides.a.b=1"});
  EXPECT_THAT(job.model.overrides,
              testing::ElementsAre(
                  testing::Pair("a", "{\"b\":1}"), testing::Pair("hidden_act", "\"gelu_new\""),
                  testing::Pair("rope_scaling", "{\"factor\":2.0,\"type\":\"linear\"}"),
                  testing::Pair("sliding_window", "null"), testing::Pair("tie_word_embeddings", "true")));
}

TEST(Overrides, RefuseWhatJsonDoesNotHave) {
  EXPECT_THAT(error_of("[model.overrides]\na = 1979-05-27"), HasSubstr("model.overrides.a"));
  EXPECT_THAT(error_of("[model.overrides]\na = inf"), HasSubstr("finite"));
  EXPECT_THAT(error_of("[model]\noverrides = 1"), HasSubstr("is not a table"));
  EXPECT_THAT(error_of("[model.overrides]\na = " + std::string(40, '[') + std::string(40, ']')),
              HasSubstr("nested too deeply"));
  EXPECT_THAT(setting_error("model.overrides.a=1\nb=2"), HasSubstr("line break"));
  EXPECT_THAT(setting_error("model.overrides.=1"), testing::Not(HasSubstr("no error")));
  EXPECT_THAT(setting_error("model.overrides.a=\xff"), testing::Not(HasSubstr("no error")));
}

TEST(ToToml, WritesWhatIsNotDefault) {
  EXPECT_THAT(to_toml(Job{}), IsEmpty());
  EXPECT_EQ(
      to_toml(with({"precision=fp32", "model.name=a \"b\"", "model.overrides.x=null", "batch.sequence=8192",
                    "loop.use_cache=true", "loop.clip_max_norm=1", "hardware.gpus=1"})),
      R"(precision = "fp32"

[model]
name = "a \"b\""
overrides.x = "null"

[hardware]
gpus = 1

[batch]
sequence = 8192

[loop]
clip_max_norm = 1.0
use_cache = true
)");
}

TEST(JobFile, RefusesDepthBeforeTheParserRecursesOverIt) {
  std::string dots, brackets = "precision = ";
  for (int i = 0; i < 100'000; ++i) {
    dots += "a.";
    brackets += "[";
  }
  EXPECT_THAT(error_of(dots + "b = 1"), HasSubstr("job.toml:1:82: is nested deeper than 40 levels"));
  EXPECT_THAT(error_of("[" + dots + "b]"), HasSubstr("is nested deeper"));
  EXPECT_THAT(error_of(brackets), HasSubstr("is nested deeper"));
  EXPECT_THAT(error_of("precision = \"" + std::string(100, '.') + "\""), HasSubstr("is not one of"));
}

TEST(JobFile, OpensRegularFilesOnly) {
  const auto job = read_job_file("/dev/zero");
  ASSERT_FALSE(job);
  EXPECT_THAT(job.error().to_text(), HasSubstr("is no regular file"));
}

}  // namespace
}  // namespace plimsoll
