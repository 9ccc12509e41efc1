// The reader of programs' text form takes any bytes. What is read must be written so that it reads the same,
// and must be harmless to verify and to simulate.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "allocator/caching_heap.h"
#include "program/text.h"
#include "program/verify.h"
#include "simulator/simulator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto program = plimsoll::parse_program(text, "fuzz.txt");
  if (!program) return 0;
  const std::string written = plimsoll::to_text(*program);
  const auto again = plimsoll::parse_program(written, "again.txt");
  if (!again || plimsoll::to_text(*again) != written) std::abort();
  if (plimsoll::verify(*program) && program->is_complete) {
    plimsoll::CachingHeap heap;
    plimsoll::simulate(*program, heap, {.keeps_events = true});
  }
  return 0;
}
