#include "runtime/communication/peers.h"

#include <ATen/ops/from_blob.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace plimsoll::runtime {
namespace {

using c10d::ProcessGroupGloo;

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
    : rank_(place.rank),
      inbox_(static_cast<size_t>(place.size)),
      expected_(static_cast<size_t>(place.size)),
      group_(std::make_unique<Group>()) {
  auto options = ProcessGroupGloo::Options::create(timeout);
  options->threads = 1;  // of Gloo's own collectives, which nobody calls
  options->devices.push_back(device_of(place));
  group_->gloo = c10::make_intrusive<ProcessGroupGloo>(store, static_cast<int>(place.rank),
                                                       static_cast<int>(place.size), options);
  await_letters();
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

Peers::Message Peers::start_send(int64_t to, const void* bytes, int64_t count, Tag tag) {
  Message message;
  message.peer_ = to;
  std::vector<at::Tensor> view = view_of(const_cast<void*>(bytes), count);  // NOLINT: Gloo only reads it
  try {
    message.work_ = group_->gloo->send(view, static_cast<int>(to), static_cast<int>(tag));
  } catch (const std::exception& e) {
    throw PeerFailure(to, e.what());
  }
  return message;
}

Peers::Message Peers::start_receive(int64_t from, void* bytes, int64_t count, Tag tag) {
  Message message;
  message.peer_ = from;
  std::vector<at::Tensor> view = view_of(bytes, count);
  try {
    message.work_ = group_->gloo->recv(view, static_cast<int>(from), static_cast<int>(tag));
  } catch (const std::exception& e) {
    throw PeerFailure(from, e.what());
  }
  return message;
}

Peers::Message Peers::send(int64_t to, const void* bytes, int64_t count) {
  return start_send(to, bytes, count, Tag::kMessages);
}
Peers::Message Peers::receive(int64_t from, void* bytes, int64_t count) {
  return start_receive(from, bytes, count, Tag::kMessages);
}

void Peers::await_letters() {
  for (size_t r = 0; r < inbox_.size(); ++r)
    if (static_cast<int64_t>(r) != rank_)
      expected_[r] = start_receive(static_cast<int64_t>(r), inbox_[r].data(), kLetterBytes, Tag::kLetters);
}

std::vector<Peers::Letter> Peers::exchange(const Letter& own, std::chrono::milliseconds timeout) {
  const auto size = static_cast<int64_t>(inbox_.size());
  std::vector<Message> sent;
  for (int64_t i = 1; i < size; ++i)  // each begins with its successor
    sent.push_back(start_send((rank_ + i) % size, own.data(), kLetterBytes, Tag::kLetters));
  for (int64_t i = 1; i < size; ++i) expected_[static_cast<size_t>((rank_ + i) % size)].wait(timeout);
  for (Message& message : sent) message.wait(timeout);
  std::vector<Letter> letters = inbox_;
  letters[static_cast<size_t>(rank_)] = own;
  await_letters();
  return letters;
}

}  // namespace plimsoll::runtime
