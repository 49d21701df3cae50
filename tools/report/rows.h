#pragma once

#include <string>
#include <vector>

#include "tools/report/model.h"

namespace verbena::report {

/// A line of a ladder.
struct Row {
  enum class Mark : std::uint8_t {
    arrow,  // a packet, from `side` to the other
    post_send,
    post_receive,
    done,    // a completion with success
    failed,  // … with an error
    retry,
    state,
    folded,  // more of what stands before it
  };
  Mark mark = Mark::arrow;
  Side side = Side::left;
  Time time = 0;
  std::string text{};
  std::string end{};  // of an arrow: what became of it, if it didn't arrive well
  bool lost = false;  // the arrow breaks
  bool again = false;
  bool connection = false;
  bool answer = false;     // an acknowledgement or a response
  bool refusal = false;    // a NAK, RNR too
  std::string likeness{};  // rows that differ in numbers only have the same
};

struct RowOptions {
  bool states = false;      // changes of state, too; those to errors are always there
  bool fold = false;        // what repeats itself becomes one row
  std::size_t most = 0;     // rows; 0: all
  bool rest = true;         // the last row says how many more there are
  std::size_t ladders = 0;  // conversations; 0: all
};

/// The rows of a conversation, in the order of time.
[[nodiscard]] std::vector<Row> rows_of(const Model& model, std::uint32_t conversation,
                                       const RowOptions& options);

}  // namespace verbena::report
