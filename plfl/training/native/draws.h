// Minibatches, drawn as numpy draws them.

#pragma once

#include <cstdint>
#include <utility>

namespace {

// Random bits of one of numpy's bit generators, see its C interface.
struct Bits {
  void* state;
  std::uint32_t (*next)(void*);

  // A number from 0 to `most`, each equally likely, by Lemire's method (arXiv 1805.10941), as in
  // numpy's Generator.
  std::uint32_t up_to(std::uint32_t most) const {
    if (most == 0) return 0;
    const std::uint32_t numbers = most + 1;
    std::uint64_t product = std::uint64_t(next(state)) * numbers;
    if (std::uint32_t(product) < numbers) {
      const std::uint32_t threshold = -numbers % numbers;
      while (std::uint32_t(product) < threshold) product = std::uint64_t(next(state)) * numbers;
    }
    return std::uint32_t(product >> 32);
  }
};

// `size` different windows in random order (Floyd's algorithm, then a shuffle), as
// Generator.choice(windows, size, replace=False) draws a few of many. `is_drawn` [windows] is zero
// before and after.
void draw(const Bits& bits, std::uint32_t windows, std::uint32_t size, std::uint8_t* is_drawn,
          std::int64_t* drawn) {
  for (std::uint32_t i = 0; i < size; ++i) {
    const std::uint32_t most = windows - size + i, number = bits.up_to(most);
    drawn[i] = is_drawn[number] ? most : number;
    is_drawn[drawn[i]] = 1;
  }
  for (std::uint32_t i = 0; i < size; ++i) is_drawn[drawn[i]] = 0;
  for (std::uint32_t i = size - 1; i > 0; --i) std::swap(drawn[i], drawn[bits.up_to(i)]);
}

}  // namespace
