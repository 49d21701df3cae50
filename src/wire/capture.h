#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "packet/frame.h"
#include "system/output_file.h"
#include "wire/pcapng.h"
#include "wire/tap.h"
#include "wire/train.h"

namespace verbena::wire {

/// Writes frames to a pcapng file, as they pass the port: those that leave before faults have
/// their way with them, those that arrive after it. Never in the way of traffic: when the file
/// can't take more, frames are counted only.
class Capture final : public Tap {
 public:
  static Result<std::unique_ptr<Capture>> open(const std::string& path);

  // Tap
  void sending() override;
  void sent(const packet::Flow& flow, std::span<const std::uint8_t> frames, std::size_t segment,
            unsigned interface) override;
  void received(const Train& train, unsigned interface) override;
  /// Hands what was gathered to the kernel, so that the file is whole if the process is killed.
  void flushed() override { write(); }

  [[nodiscard]] const std::string& path() const { return file_.path(); }
  /// Frames that were not written.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  /// Why; empty as long as none is.
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  static constexpr std::size_t kBuffer = 1u << 20;

  explicit Capture(OutputFile file) : file_{std::move(file)} {}
  void write();
  void append(const pcapng::PacketInfo& info, const packet::Datagram& d);
  [[nodiscard]] std::uint32_t number_of(unsigned interface);

  OutputFile file_;
  std::string buffer_;
  std::uint64_t frames_ = 0;  // in the buffer
  std::uint64_t lost_ = 0;
  std::string error_;
  std::uint64_t sending_ = 0;         // ns since 1970: when the frames of sent() began to leave
  std::vector<unsigned> interfaces_;  // in the order of their blocks
};

}  // namespace verbena::wire
