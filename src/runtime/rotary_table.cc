#include "runtime/rotary_table.h"

#include <cmath>
#include <numbers>
#include <vector>

namespace plimsoll::runtime {
namespace {

// Long wavelengths are stretched by the factor, short ones are left, those between are blended.
float llama3_frequency(float frequency, const RopeScaling& rope) {
  const auto original = static_cast<double>(*rope.original_max_position);
  const double low = *rope.low_frequency_factor, high = *rope.high_frequency_factor;
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < original / high) return frequency;
  if (wavelength > original / low) return static_cast<float>(frequency / *rope.factor);
  const double smooth = (original / wavelength - low) / (high - low);
  return static_cast<float>((1 - smooth) * frequency / *rope.factor + smooth * frequency);
}

std::vector<float> frequencies(const Architecture& a, int64_t half) {
  std::vector<float> all(static_cast<size_t>(half));
  for (size_t i = 0; i < all.size(); ++i) {
    const auto exponent = static_cast<float>(2 * i) / static_cast<float>(2 * half);
    all[i] = 1.0F / std::pow(static_cast<float>(a.rope_theta), exponent);
    if (a.rope_type == "linear") all[i] = static_cast<float>(all[i] / *a.rope_scaling.factor);
    if (a.rope_type == "llama3") all[i] = llama3_frequency(all[i], a.rope_scaling);
  }
  return all;
}

}  // namespace

void fill_rotary_table(const Architecture& architecture, at::Tensor& cos, at::Tensor& sin) {
  const int64_t half = cos.size(1);
  const std::vector<float> all = frequencies(architecture, half);
  auto* const to_cos = static_cast<float*>(cos.mutable_data_ptr());
  auto* const to_sin = static_cast<float*>(sin.mutable_data_ptr());
  for (int64_t position = 0; position < cos.size(0); ++position)
    for (int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(position) * all[static_cast<size_t>(i)];
      to_cos[position * half + i] = std::cos(angle);
      to_sin[position * half + i] = std::sin(angle);
    }
}

}  // namespace plimsoll::runtime
