#pragma once

// "Overwrite?", asked by one thread and answered at the terminal by another, which goes on polling.

#include <condition_variable>
#include <mutex>
#include <string>

#include "tools/transfer/descriptor.h"

namespace verbena::transfer {

/// What somebody types.
enum class Answer : std::uint8_t { yes, no, all, none, unclear };
[[nodiscard]] Answer answer_from(const std::string& line);

class Question {
 public:
  Question();

  /// Waits for the answer; false once end() was called.
  [[nodiscard]] bool ask(const std::string& path);
  void end();

  /// Readable: show() has something.
  [[nodiscard]] int fd() const { return event_.get(); }
  [[nodiscard]] bool open() const;
  void show();
  void read_answer();

 private:
  Descriptor event_;
  mutable std::mutex lock_;
  std::condition_variable changed_;
  std::string path_;
  bool open_ = false, ended_ = false, answer_ = false;
  bool all_ = false, none_ = false;
};

}  // namespace verbena::transfer
