#include "tools/doctor/gpu_check.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <sstream>

#include "tools/doctor/text.h"

namespace verbena::doctor {
namespace {

constexpr auto kCudaPatience = std::chrono::seconds{10};

template <typename Function>
Function* symbol_of(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

/// Lines: "library", then "gpu NAME" for each, or "problem TEXT".
std::string ask_libcuda() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return "";
  auto* const init = symbol_of<int(unsigned)>(library, "cuInit");
  auto* const count = symbol_of<int(int*)>(library, "cuDeviceGetCount");
  auto* const get = symbol_of<int(int*, int)>(library, "cuDeviceGet");
  auto* const name = symbol_of<int(char*, int, int)>(library, "cuDeviceGetName");
  if (init == nullptr || count == nullptr || get == nullptr || name == nullptr) {
    return "library\nproblem it lacks functions of CUDA\n";
  }
  if (const int error = init(0); error != 0) {
    return fmt::format("library\nproblem cuInit fails with {}\n", error);
  }
  int gpus = 0;
  if (const int error = count(&gpus); error != 0) {
    return fmt::format("library\nproblem cuDeviceGetCount fails with {}\n", error);
  }
  std::string text = "library\n";
  for (int i = 0; i < gpus; ++i) {
    std::array<char, 128> words{};
    int device = 0;
    if (get(&device, i) != 0 || name(words.data(), words.size() - 1, device) != 0) continue;
    text += fmt::format("gpu {}\n", words.data());
  }
  return text;
}

/// All that the child writes until it ends or the time is over. nullopt: it didn't end well.
std::string output_of_child(int fd) {
  const auto until = std::chrono::steady_clock::now() + kCudaPatience;
  std::string text;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
                          until - std::chrono::steady_clock::now())
                          .count();
    pollfd entry{fd, POLLIN, 0};
    if (left < 0 || poll(&entry, 1, static_cast<int>(left) + 1) == 0) return text;
    std::array<char, 1024> piece{};
    const ssize_t n = read(fd, piece.data(), piece.size());
    if (n == 0 || (n < 0 && errno != EINTR)) return text;
    if (n > 0) text.append(piece.data(), static_cast<std::size_t>(n));
  }
}

}  // namespace

Gpus find_gpus() {
  Gpus found;
  found.driver = access("/proc/driver/nvidia/version", F_OK) == 0;
  std::array<int, 2> ends{-1, -1};
  if (pipe(ends.data()) != 0) return found;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const std::string text = ask_libcuda() + "end\n";
    _exit(write(ends[1], text.data(), text.size()) < 0);
  }
  close(ends[1]);
  const std::string text = output_of_child(ends[0]);
  close(ends[0]);
  if (child > 0) {
    kill(child, SIGKILL);  // if it has ended, this does nothing
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  std::istringstream lines{text};
  bool ended = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "library") found.library = true;
    if (line == "end") ended = true;
    if (line.starts_with("gpu ")) found.names.push_back(line.substr(4));
    if (line.starts_with("problem ")) found.problem = line.substr(8);
  }
  if (!ended) found.problem = "libcuda.so.1 crashes or doesn't end";
  return found;
}

Finding judge_gpus(const Gpus& gpus, bool registered) {
  if (!gpus.problem.empty()) {
    return warning("gpu", "libcuda.so.1: " + gpus.problem, "Programs can't use GPUs.",
                   {{"nvidia-smi"}});
  }
  if (!gpus.library && gpus.driver) {
    return warning("gpu", "the kernel has NVIDIA's driver, but there is no libcuda.so.1",
                   "Programs can't use GPUs.", {{"apt-get install libcuda1", true}});
  }
  if (gpus.names.empty()) return fine("gpu", "no NVIDIA GPU");
  const std::string seen = fmt::format("{} of NVIDIA: {}", gpus.names.size(), listed(gpus.names));
  if (registered) return fine("gpu", seen + "; this Verbena registers their memory");
  return warning("gpu", seen + "; this Verbena doesn't register their memory",
                 "ibv_reg_mr of GPU memory fails. Register host memory (cudaMallocHost) and copy.",
                 {});
}

bool library_registers_gpu_memory() { return access("/sys/module/verbena/gpu_memory", F_OK) == 0; }

}  // namespace verbena::doctor
