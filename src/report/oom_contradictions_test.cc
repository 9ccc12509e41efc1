#include "report/oom_contradictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/oom_page.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Bytes size(const char* text) { return *parse_bytes(text); }

// A message as PyTorch 2.4 writes it on a full device.
OutOfMemoryMessage whole() {
  return {.kind = "CUDA",
          .tried = kGiB * 2,
          .device = 0,
          .capacity = size("79.15 GiB"),
          .free = size("1.02 GiB"),
          .in_use = size("70.11 GiB"),
          .allowed = size("75.19 GiB"),
          .allocated = size("68.40 GiB"),
          .private_pools = kGiB * 3,
          .reserved_unallocated = size("900.31 MiB"),
          .processes = {{7, size("8.01 GiB")}}};
}

std::vector<std::string> texts_of(const OutOfMemoryMessage& m) {
  std::vector<std::string> texts;
  for (const OomContradiction& contradiction : contradictions_of(m)) texts.push_back(contradiction.text);
  return texts;
}

TEST(OomContradictions, AWholeMessageHasNone) { EXPECT_THAT(contradictions_of(whole()), IsEmpty()); }

// Each with a figure that can't be beside the others.
TEST(OomContradictions, EachLawByItsBreach) {
  const auto with = [](auto change) {
    OutOfMemoryMessage m = whole();
    change(m);
    return texts_of(m);
  };
  EXPECT_THAT(with([](auto& m) { m.free = kGiB * 900; }),
              ElementsAre("900.00 GiB free of a device of 79.15 GiB"));
  EXPECT_THAT(with([](auto& m) { m.allowed = kGiB * 90; }),
              ElementsAre("90.00 GiB allowed to this process on a device of 79.15 GiB"));
  EXPECT_THAT(with([](auto& m) {
                m.processes = {{7, kGiB * 80}};
              }),
              ElementsAre("process 7 with 80.00 GiB on a device of 79.15 GiB"));
  EXPECT_THAT(with([](auto& m) { m.reserved_unallocated = kGiB * -2; }),
              ElementsAre("68.40 GiB allocated, and 2.00 GiB less reserved"));
  EXPECT_THAT(with([](auto& m) { m.reserved = kGiB * 60; }),
              ElementsAre("68.40 GiB allocated of 60.00 GiB reserved in total"));
  EXPECT_THAT(with([](auto& m) { m.private_pools = kGiB * 69; }),
              ElementsAre("69.00 GiB in private pools of 68.40 GiB allocated"));
  EXPECT_THAT(with([](auto& m) { m.in_use = kGiB; }),
              ElementsAre("PyTorch with 69.28 GiB in a process that uses 1.00 GiB"));
  EXPECT_THAT(with([](auto& m) { m.free = kGiB * 12; }),
              ElementsAre("69.28 GiB that PyTorch holds and 12.00 GiB free of a device of 79.15 GiB"));
  EXPECT_THAT(with([](auto& m) {
                m.processes = {{7, kGiB * 12}};
              }),
              ElementsAre("82.11 GiB that processes use and 1.02 GiB free of a device of 79.15 GiB"));
}

// 5 MiB of each figure are rounding.
TEST(OomContradictions, RoundingIsNone) {
  OutOfMemoryMessage m = {
      .kind = "CUDA", .tried = kMiB * 20, .capacity = size("10.00 GiB"), .free = size("10.01 GiB")};
  EXPECT_THAT(texts_of(m), IsEmpty());
  m.free = size("10.02 GiB");
  EXPECT_THAT(texts_of(m), Not(IsEmpty()));
}

// One figure that is wrong isn't the others' fault.
TEST(OomContradictions, AFigureIsBlamedOnce) {
  OutOfMemoryMessage m = whole();
  m.free = kGiB * 900;
  m.in_use = kGiB;
  EXPECT_THAT(texts_of(m), ElementsAre("900.00 GiB free of a device of 79.15 GiB",
                                       "PyTorch with 69.28 GiB in a process that uses 1.00 GiB"));
  const OutOfMemoryMessage rest = without_contradicted(m, contradictions_of(m));
  EXPECT_EQ(rest.allowed, m.allowed);
  EXPECT_EQ(rest.processes, m.processes);
  EXPECT_FALSE(rest.free || rest.capacity || rest.in_use || rest.allocated || rest.reserved_unallocated);
}

// Windows' driver moves what doesn't fit to the host's memory.
TEST(OomContradictions, MoreThanTheDeviceHasIsNone) {
  const OutOfMemoryMessage m = {.kind = "CUDA",
                                .tried = kMiB * 768,
                                .capacity = size("31.84 GiB"),
                                .free = Bytes{},
                                .allocated = size("52.93 GiB"),
                                .reserved_unallocated = size("32.88 MiB"),
                                .unmeasured = 1};
  EXPECT_THAT(texts_of(m), IsEmpty());
}

TEST(OomContradictions, StandInThePageAndTheJson) {
  OutOfMemoryMessage m = whole();
  m.free = kGiB * 900;
  const std::string note =
      "contradictory: 900.00 GiB free of a device of 79.15 GiB; so not concluded: whether the device had "
      "room for the request, whether fragmentation decided, how much less had to be held";
  const std::string page = oom_page("log", {m}, {});
  EXPECT_THAT(page, HasSubstr("\nNotes\n"));
  EXPECT_THAT(page, HasSubstr("\n  " + note + "\n"));
  EXPECT_THAT(page, Not(HasSubstr("not named by the message")));
  EXPECT_THAT(page, Not(HasSubstr("was free when the message was written")));
  const auto json = nlohmann::json::parse(oom_json("log", {m}, {}, {}));
  EXPECT_EQ(json["notes"], nlohmann::json::array({note}));
  const auto& message = json["messages"][0];
  EXPECT_EQ(message["contradictions"][0]["figures"], nlohmann::json::array({"free_bytes", "capacity_bytes"}));
  EXPECT_EQ(message["contradictions"][0]["what"], "900.00 GiB free of a device of 79.15 GiB");
  EXPECT_EQ(message["free_bytes"], (kGiB * 900).value);  // as the message says it
  EXPECT_TRUE(message["unnamed_bytes"].is_null());
  OutOfMemoryMessage other = m;
  other.device = 3;
  other.tried = kGiB;
  EXPECT_THAT(oom_page("log", {m, other}, {}), HasSubstr("\n  GPU 3: contradictory: 900.00 GiB free"));
}

}  // namespace
}  // namespace plimsoll
