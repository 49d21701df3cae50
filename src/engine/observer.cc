#include "engine/observer.h"

namespace verbena::engine {

std::string_view name_of(RetryCause c) {
  switch (c) {
    case RetryCause::timeout:
      return "timeout";
    case RetryCause::early:
      return "early";
    case RetryCause::sequence_nak:
      return "sequence_nak";
    case RetryCause::missing_response:
      return "missing_response";
    case RetryCause::rnr_nak:
      return "rnr_nak";
  }
  return "?";
}

}  // namespace verbena::engine
