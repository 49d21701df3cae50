// The kernels of lab gpu, by their names. What they compute is the same as in labs/gpu/kernels.h,
// in other words.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "tests/support/cuda/calls.h"
#include "tests/support/cuda/contexts.h"
#include "tests/support/cuda/memory.h"

struct CUmod_st {
  std::string text;
  bool loaded = true;
};

enum class Kernel { fill, check };
struct CUfunc_st {
  Kernel kernel;
};

namespace stand_in {
namespace {

std::uint64_t pattern_word(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t word = (seed + 1) * 0x9e3779b97f4a7c15u + index;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
  return word ^ (word >> 31);
}

/// As many bytes as there are of a word that begins at `index`, or of what is left of the word.
std::size_t word_at(std::uint64_t seed, std::uint64_t index, std::size_t left,
                    std::byte (&word)[8]) {
  const std::uint64_t value = pattern_word(seed, index / 8) >> (8 * (index % 8));
  std::memcpy(word, &value, sizeof value);
  return std::min<std::size_t>(left, 8 - index % 8);
}

void fill(const Extent& extent, std::uint64_t seed) {
  std::uint64_t index = 0;
  std::byte word[8];
  for (const Piece& piece : extent) {
    for (std::size_t i = 0; i < piece.size;) {
      const std::size_t count = word_at(seed, index, piece.size - i, word);
      std::memcpy(piece.at + i, word, count);
      i += count;
      index += count;
    }
  }
}

/// The first wrong byte goes into the result, if what it holds is larger.
void check(const Extent& extent, std::uint64_t seed, const Piece& result) {
  const std::atomic_ref found{*reinterpret_cast<std::uint64_t*>(result.at)};
  std::uint64_t index = 0;
  std::byte word[8];
  for (const Piece& piece : extent) {
    for (std::size_t i = 0; i < piece.size;) {
      const std::size_t count = word_at(seed, index, piece.size - i, word);
      const auto wrong = std::mismatch(word, word + count, piece.at + i).first - word;
      if (static_cast<std::size_t>(wrong) < count) {
        const std::uint64_t first = index + static_cast<std::uint64_t>(wrong);
        if (first < found.load()) found.store(first);
        return;
      }
      i += count;
      index += count;
    }
  }
}

std::uint64_t parameter(void** parameters, int index) {
  std::uint64_t value = 0;
  std::memcpy(&value, parameters[index], sizeof value);
  return value;
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return call("cuModuleLoadData", [&]() -> CUresult {
    if (const Current now = current(); now.error != CUDA_SUCCESS) return now.error;
    if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const std::string_view text = static_cast<const char*>(image);
    for (const char* word : {".version", ".target", ".address_size 64", ".entry"}) {
      if (text.find(word) == std::string_view::npos) return CUDA_ERROR_INVALID_PTX;
    }
    *module = make_handle<CUmod_st>(std::string{text});
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleUnload(CUmodule module) {
  return call("cuModuleUnload", [&]() -> CUresult {
    if (module == nullptr || !module->loaded) return CUDA_ERROR_INVALID_HANDLE;
    module->loaded = false;
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return call("cuModuleGetFunction", [&]() -> CUresult {
    if (function == nullptr || module == nullptr || !module->loaded || name == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    if (module->text.find(".entry " + std::string{name} + "(") == std::string::npos)
      return CUDA_ERROR_NOT_FOUND;
    if (std::string_view{name} == "fill_pattern") {
      *function = make_handle<CUfunc_st>(Kernel::fill);
    } else if (std::string_view{name} == "check_pattern") {
      *function = make_handle<CUfunc_st>(Kernel::check);
    } else {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned,
                        CUstream stream, void** parameters, void**) {
  return call("cuLaunchKernel", [&]() -> CUresult {
    const bool is_check = function->kernel == Kernel::check;
    if (grid_x * grid_y * grid_z == 0 || block_x * block_y * block_z == 0 ||
        block_x * block_y * block_z > 1024)
      return CUDA_ERROR_INVALID_VALUE;
    const Chosen chosen = choose_for_work(stream);
    if (chosen.error != CUDA_SUCCESS) return chosen.error;
    const std::uint64_t seed = parameter(parameters, 2);
    const auto extent = device_extent(parameter(parameters, 0), parameter(parameters, 1));
    const auto result = is_check ? device_extent(parameter(parameters, 3), 8) : Extent{};
    // A real GPU would say so at the next synchronisation.
    if (!extent || !result) return CUDA_ERROR_ILLEGAL_ADDRESS;
    const bool taken = chosen.stream->add([=, extent = *extent, result = *result] {
      if (is_check) {
        check(extent, seed, result.front());
      } else {
        fill(extent, seed);
      }
    });
    return taken ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
  });
}
