#pragma once

namespace verbena::host {

/// While one lives, this thread's paths lead to what the kernel has there, without the files that
/// our hooks add for the program: our own look at the machine must not find ourselves.
class KernelView {
 public:
  KernelView() { ++depth_; }
  ~KernelView() { --depth_; }
  KernelView(const KernelView&) = delete;
  KernelView& operator=(const KernelView&) = delete;

  [[nodiscard]] static bool active() { return depth_ > 0; }

 private:
  static inline thread_local unsigned depth_ = 0;
};

}  // namespace verbena::host
