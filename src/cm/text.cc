#include <string_view>

#include "cm/connection.h"
#include "cm/event.h"

namespace verbena::cm {

std::string_view text(State state) {
  switch (state) {
    case State::req_sent:
      return "req_sent";
    case State::rep_rcvd:
      return "rep_rcvd";
    case State::req_rcvd:
      return "req_rcvd";
    case State::rep_sent:
      return "rep_sent";
    case State::established:
      return "established";
    case State::dreq_sent:
      return "dreq_sent";
    case State::dreq_rcvd:
      return "dreq_rcvd";
    case State::timewait:
      return "timewait";
  }
  return "unknown";
}

std::string_view text(EventKind kind) {
  switch (kind) {
    case EventKind::connect_request:
      return "connect_request";
    case EventKind::connect_response:
      return "connect_response";
    case EventKind::established:
      return "established";
    case EventKind::rejected:
      return "rejected";
    case EventKind::unreachable:
      return "unreachable";
    case EventKind::connect_error:
      return "connect_error";
    case EventKind::disconnected:
      return "disconnected";
    case EventKind::timewait_exit:
      return "timewait_exit";
  }
  return "unknown";
}

}  // namespace verbena::cm
