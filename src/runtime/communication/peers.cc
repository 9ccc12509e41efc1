#include "runtime/communication/peers.h"

#include <ATen/ops/from_blob.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace plimsoll::runtime {
namespace {

using c10d::ProcessGroupGloo;

constexpr int kTag = 0;         // one is enough: Gloo keeps the order of a tag
constexpr int kNothingTag = 1;  // nothing is sent with it

auto device_of(const ProcessPlace& place) {
  if (place.is_on_one_machine()) return ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  if (const char* const interface = std::getenv("GLOO_SOCKET_IFNAME"))
    return ProcessGroupGloo::createDeviceForInterface(interface);
  return ProcessGroupGloo::createDefaultDevice();
}

std::vector<at::Tensor> view_of(void* bytes, int64_t count) {
  return {at::from_blob(bytes, {count}, at::TensorOptions(at::kByte))};
}

}  // namespace

struct Peers::Group {
  c10::intrusive_ptr<ProcessGroupGloo> gloo;
};

Peers::Peers(const c10::intrusive_ptr<c10d::Store>& store, const ProcessPlace& place,
             std::chrono::milliseconds timeout)
    : group_(std::make_unique<Group>()) {
  auto options = ProcessGroupGloo::Options::create(timeout);
  options->threads = 1;  // of Gloo's own collectives, which nobody calls
  options->devices.push_back(device_of(place));
  group_->gloo = c10::make_intrusive<ProcessGroupGloo>(store, static_cast<int>(place.rank),
                                                       static_cast<int>(place.size), options);
}

Peers::~Peers() = default;

void Peers::Message::wait(std::chrono::milliseconds timeout) {
  try {
    if (!work_->wait(timeout)) throw PeerFailure(peer_, "the message was given up");
  } catch (const PeerFailure&) {
    throw;
  } catch (const std::exception& e) {
    throw PeerFailure(peer_, e.what());
  }
}

Peers::Message Peers::send(int64_t to, const void* bytes, int64_t count) {
  Message message;
  message.peer_ = to;
  std::vector<at::Tensor> view = view_of(const_cast<void*>(bytes), count);  // NOLINT: Gloo only reads it
  try {
    message.work_ = group_->gloo->send(view, static_cast<int>(to), kTag);
  } catch (const std::exception& e) {
    throw PeerFailure(to, e.what());
  }
  return message;
}

void Peers::Message::give_up() { work_->abort(); }

Peers::Message Peers::receive(int64_t from, void* bytes, int64_t count) {
  return receive(from, bytes, count, kTag);
}
Peers::Message Peers::receive_nothing(int64_t from, void* byte) {
  return receive(from, byte, 1, kNothingTag);
}
Peers::Message Peers::receive(int64_t from, void* bytes, int64_t count, int tag) {
  Message message;
  message.peer_ = from;
  std::vector<at::Tensor> view = view_of(bytes, count);
  try {
    message.work_ = group_->gloo->recv(view, static_cast<int>(from), tag);
  } catch (const std::exception& e) {
    throw PeerFailure(from, e.what());
  }
  return message;
}

}  // namespace plimsoll::runtime
