#pragma once

// NVIDIA GPUs, and whether the library registers their memory. All that the doctor knows of GPUs.

#include <string>
#include <vector>

#include "tools/doctor/check.h"

namespace verbena::doctor {

struct Gpus {
  bool driver = false;   // the kernel's: /proc/driver/nvidia
  bool library = false;  // libcuda.so.1 can be loaded
  std::vector<std::string> names;
  std::string problem;  // what libcuda says; empty: nothing
};
/// Loads libcuda in a child: it starts threads, and a broken one may crash.
[[nodiscard]] Gpus find_gpus();

/// `registered`: library_registers_gpu_memory() of the process that has the library.
[[nodiscard]] Finding judge_gpus(const Gpus& gpus, bool registered);

/// Does ibv_reg_mr of the preload library in this process take memory of a GPU?
[[nodiscard]] bool library_registers_gpu_memory();

}  // namespace verbena::doctor
