// Checkpoints that aren't what was saved, whole or in any byte, are refused with the file's name.
#include <gmock/gmock.h>

#include "train/checkpoint_test_helpers.h"

namespace plimsoll {
namespace {

using testing::HasSubstr;

TEST_F(CheckpointTest, WhatIsNotWholeIsRefusedByFile) {
  losses_of({.steps = kBreak});
  const fs::path checkpoint = folder_ / "runs/step-000003";
  const auto broken = [&](const std::string& file, const auto& damage) {
    const std::string bytes = bytes_of_file(checkpoint / file);
    damage(bytes);
    const std::string error = error_of({});
    put(checkpoint / file, bytes);
    EXPECT_THAT(error, HasSubstr(file));
    return error;
  };
  for (const std::string file :
       {"model.safetensors", "optimizer-00001-of-00001.safetensors", "state.json", "config.json"}) {
    broken(file, [&](const std::string&) { fs::remove(checkpoint / file); });
    broken(file,
           [&](const std::string& bytes) { put(checkpoint / file, bytes.substr(0, bytes.size() / 2)); });
  }
  const auto flip = [&](const std::string& file) {
    return broken(file, [&](std::string bytes) {
      bytes[bytes.size() - 5] ^= 1;
      put(checkpoint / file, bytes);
    });
  };
  EXPECT_THAT(flip("model.safetensors"), HasSubstr("isn't what was saved"));
  EXPECT_THAT(flip("optimizer-00001-of-00001.safetensors"), HasSubstr("isn't what was saved"));
  const std::string newer = broken("state.json", [&](std::string text) {
    text.replace(text.find("checkpoint/2"), 12, "checkpoint/3");
    put(checkpoint / "state.json", text);
  });
  EXPECT_THAT(newer, HasSubstr("a newer version of Plimsoll wrote it"));
  EXPECT_EQ(error_of({}), "none");
}

TEST_F(CheckpointTest, AnyBitOfTheStateIsSeen) {
  losses_of({.steps = kBreak});
  const fs::path checkpoint = folder_ / "runs/step-000003";
  for (const std::string file : {"state.json", "config.json"}) {
    const std::string bytes = bytes_of_file(checkpoint / file);
    for (size_t i = 0; i < bytes.size(); i += 7)
      for (const char bit : {1, 2, 64}) {
        std::string other = bytes;
        other[i] = static_cast<char>(other[i] ^ bit);
        put(checkpoint / file, other);
        EXPECT_THAT(opening_error(), HasSubstr(file)) << "byte " << i << " of " << file;
      }
    put(checkpoint / file, bytes);
  }
  EXPECT_EQ(opening_error(), "none");
}

// Each file is whole, they don't belong together.
TEST_F(CheckpointTest, FilesOfSeveralCheckpointsAreRefused) {
  losses_of({.steps = 4, .more = {"train.checkpoint_every=2"}});
  const fs::path before = folder_ / "runs/step-000002", last = folder_ / "runs/step-000004";
  const auto swapped = [&](const std::string& file) {
    const std::string bytes = bytes_of_file(last / file);
    put(last / file, bytes_of_file(before / file));
    const std::string error = error_of({});
    put(last / file, bytes);
    return error;
  };
  EXPECT_THAT(swapped("state.json"), HasSubstr("step-000004/state.json, key \"step\": is 2"));
  EXPECT_THAT(swapped("optimizer-00001-of-00001.safetensors"),
              HasSubstr("optimizer-00001-of-00001.safetensors, key \"step\": is 2"));
  EXPECT_THAT(swapped("model.safetensors"), HasSubstr("model.safetensors"));
  fs::rename(last, folder_ / "runs/step-000003");
  EXPECT_THAT(error_of({}), HasSubstr("key \"step\": is 4, but the folder is not step-000004"));
}

// Without checksums of the model nothing tells that it is what was saved.
TEST_F(CheckpointTest, WeightsWithoutChecksumsAreRefused) {
  losses_of({.steps = kBreak});
  const fs::path file = folder_ / "runs/step-000003/optimizer-00001-of-00001.safetensors";
  std::string bytes = bytes_of_file(file);
  const size_t name = bytes.find("weights:model.norm.weight");
  ASSERT_NE(name, std::string::npos);
  bytes.replace(name, 7, "WEIGHTS");
  put(file, bytes);
  EXPECT_THAT(error_of({}),
              HasSubstr("key \"weights:model.norm.weight\": the optimizer's files hold checksums "
                        "of the elements up to 0"));
}

TEST_F(CheckpointTest, EveryRankStopsWhereOneCannotRead) {
  losses_of({.ranks = 2, .stage = 3, .steps = kBreak});
  const fs::path file = folder_ / "runs/step-000003/optimizer-00002-of-00002.safetensors";
  std::string bytes = bytes_of_file(file);
  bytes[bytes.size() - 5] ^= 1;
  put(file, bytes);
  EXPECT_THAT(error_of({.ranks = 2, .stage = 3}), HasSubstr("rank 1: "));  // what rank 0 says
}

TEST(CheckpointState, TellsWhatItIsNot) {
  const CheckpointState state{.step = 4,
                              .samples = 32,
                              .data_fingerprint = "0123456789abcdef",
                              .global_batch = 8,
                              .parameters = 10,
                              .optimizer = "adamw",
                              .states = {"exp_avg"},
                              .precision = "fp32",
                              .loss = 1.1,
                              .job = "precision = \"fp32\"\n",
                              .config_checksum = "00000000"};
  const std::string text = checkpoint_state_text(state);
  const auto read = parse_checkpoint_state(text, "state.json");
  ASSERT_TRUE(read) << read.error().to_text();
  EXPECT_EQ(*read, state);
  // As the first version wrote it.
  const auto older = [&](const std::string& key, const std::string& value) {
    std::string old = text.substr(0, text.find(",\n  \"config_checksum\"")) + "\n}\n";
    old.replace(old.find("checkpoint/2"), 12, "checkpoint/1");
    const size_t at = old.find("\"" + key + "\": ");
    old.replace(at, old.find(',', at) - at, "\"" + key + "\": " + value);
    return parse_checkpoint_state(old, "state.json");
  };
  const auto first = older("step", "4");
  ASSERT_TRUE(first) << first.error().to_text();
  EXPECT_FALSE(first->has_checksums());
  EXPECT_THAT(older("samples", "3").error().to_text(), HasSubstr("key \"samples\": is 3"));
  EXPECT_THAT(older("samples", "4611686018427387904").error().to_text(), HasSubstr("key \"samples\""));
  EXPECT_THAT(older("step", "1000000000000000").error().to_text(), HasSubstr("key \"step\""));
}

}  // namespace
}  // namespace plimsoll
