// Writes a generated memory snapshot to standard output, to try readers on one of any size.
//
//   build/release/bench/generate_snapshot 20000000 > /tmp/snapshot.pickle  # about 2 GiB
#include <cstdio>
#include <cstdlib>

#include "snapshot_generator.h"

int main(int argc, char** argv) {
  const uint64_t events = argc == 2 ? std::strtoull(argv[1], nullptr, 10) : 0;
  if (events == 0) {
    std::fputs("usage: generate_snapshot EVENTS > FILE\n", stderr);
    return 2;
  }
  bool is_written = true;
  const uint64_t written = plimsoll::generate_snapshot(events, [&](std::string_view bytes) {
    is_written = is_written && std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size();
  });
  if (!is_written || std::fflush(stdout) != 0) {
    std::perror("generate_snapshot");
    return 1;
  }
  std::fprintf(stderr, "%llu events\n", static_cast<unsigned long long>(written));
  return 0;
}
