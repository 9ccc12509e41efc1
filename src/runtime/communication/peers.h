// Connections to the other ranks: sends and receives of bytes, which run beside the caller's. Not
// thread-safe. Gloo's exceptions come out as PeerFailure, which names the other rank.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "runtime/launch/process_place.h"

namespace plimsoll::runtime {

struct PeerFailure : std::runtime_error {
  PeerFailure(int64_t rank, const std::string& what) : std::runtime_error(what), peer(rank) {}
  int64_t peer;
};

class Peers {
 public:
  // Waits for all ranks. Throws what Gloo throws.
  Peers(const c10::intrusive_ptr<c10d::Store>& store, const ProcessPlace& place,
        std::chrono::milliseconds timeout);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // A message under way. REQUIRES its bytes stay until it is waited for.
  class Message {
   public:
    void wait(std::chrono::milliseconds timeout);  // throws PeerFailure
    void give_up();                                // whoever waits for it stops waiting; from another thread

   private:
    friend class Peers;
    int64_t peer_ = 0;
    c10::intrusive_ptr<c10d::Work> work_;
  };
  // Messages between two ranks arrive in the order in which they were sent.
  Message send(int64_t to, const void* bytes, int64_t count);
  Message receive(int64_t from, void* bytes, int64_t count);
  // Of what nobody sends: it fails when the connection ends.
  Message receive_nothing(int64_t from, void* byte);

 private:
  struct Group;
  Message receive(int64_t from, void* bytes, int64_t count, int tag);
  std::unique_ptr<Group> group_;
};

}  // namespace plimsoll::runtime
