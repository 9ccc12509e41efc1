// The allocations of a made-up training step with the pattern of a real one, for benchmarks: parameters, then
// for each microbatch a forward that keeps activations layer by layer and a backward that frees them in
// reverse with temporaries in between, then an optimizer step. Sizes in bytes; deterministic.
//
// Does not model: any particular model; sizes only have the spread of one.
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll {

struct HeapEvent {
  bool is_alloc = true;
  int64_t size = 0;     // of an allocation
  uint32_t tensor = 0;  // number of the tensor: an allocation's own, or the one freed
};

struct TrainingStepShape {
  int layers = 126;
  int microbatches = 2;
  int64_t tokens = 4096;
  int64_t hidden = 1024;
};

struct TrainingStepEvents {
  std::vector<HeapEvent> load;  // parameters
  std::vector<HeapEvent> step;  // one steady step: all it allocates it frees
  uint32_t tensors = 0;         // numbers used
};

class TrainingStepWriter {
 public:
  explicit TrainingStepWriter(const TrainingStepShape& shape) : shape_(shape) {}

  TrainingStepEvents write() {
    target_ = &events_.load;
    for (int layer = 0; layer < shape_.layers; ++layer) load_layer();
    target_ = &events_.step;
    for (int microbatch = 0; microbatch < shape_.microbatches; ++microbatch) {
      for (int layer = 0; layer < shape_.layers; ++layer) forward_layer();
      for (int layer = 0; layer < shape_.layers; ++layer) backward_layer();
    }
    for (int layer = 0; layer < shape_.layers; ++layer) optimize_layer();
    return events_;
  }

 private:
  uint32_t alloc(int64_t size) {
    target_->push_back({.is_alloc = true, .size = size, .tensor = events_.tensors});
    return events_.tensors++;
  }
  void free(uint32_t tensor) { target_->push_back({.is_alloc = false, .tensor = tensor}); }
  void temporary(int64_t size) { free(alloc(size)); }

  int64_t row(int64_t width, int64_t bytes = 2) const { return shape_.tokens * width * bytes; }

  void load_layer() {
    const int64_t h = shape_.hidden;
    for (const int64_t width : {h, h / 4, h / 4, h, 4 * h, 4 * h, 4 * h}) alloc(h * width * 2);
    alloc(h * 2);
    alloc(h * 2);
  }

  // Twenty-four ops that save their output; after each an op or two that doesn't.
  void forward_layer() {
    const int64_t h = shape_.hidden;
    std::vector<uint32_t>& saved = saved_.emplace_back();
    for (int op = 0; op < 24; ++op) {
      const int64_t width = op % 8 == 3 ? 4 * h : h;
      const uint32_t input = alloc(row(width, op % 6 == 0 ? 4 : 2));
      saved.push_back(alloc(op % 5 == 4 ? row(1, 4) : row(width)));
      if (op % 3 == 0) temporary(row(h / 4) + 512 * op);
      free(input);
    }
  }

  // Frees what the forward saved, in reverse, with two gradients in flight.
  void backward_layer() {
    const int64_t h = shape_.hidden;
    std::vector<uint32_t> saved = saved_.back();
    saved_.pop_back();
    uint32_t gradient = alloc(row(h));
    for (int op = 23; op >= 0; --op) {
      const uint32_t next = alloc(row(op % 8 == 3 ? 4 * h : h));
      temporary(row(h, 4));
      if (op % 4 == 0) temporary(h * h * 2);
      temporary(4096 + 512 * op);
      temporary(row(op % 8 == 3 ? 4 * h : h));
      free(gradient);
      free(saved.back());
      saved.pop_back();
      gradient = next;
    }
    free(gradient);
  }

  void optimize_layer() {
    const int64_t h = shape_.hidden;
    std::vector<uint32_t> updates;
    for (const int64_t width : {h, h / 4, h / 4, h, 4 * h, 4 * h, 4 * h})
      updates.push_back(alloc(h * width * 4));
    for (const uint32_t update : updates) free(update);
  }

  TrainingStepShape shape_;
  TrainingStepEvents events_;
  std::vector<HeapEvent>* target_ = nullptr;
  std::vector<std::vector<uint32_t>> saved_;
};

inline TrainingStepEvents training_step_events(const TrainingStepShape& shape) {
  return TrainingStepWriter(shape).write();
}

}  // namespace plimsoll
