#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/report/observation.h"

namespace verbena::report {

/// "::ffff:10.0.0.1", which GIDs say, is "10.0.0.1".
[[nodiscard]] std::string_view plain_address(std::string_view address);

/// Where a packet came from, and where it went; of captures and traces alike.
struct Way {
  std::string_view source{};
  std::string_view destination{};
};
[[nodiscard]] Way way_of(const Observation& o, bool traced);

inline constexpr std::uint32_t kManagementQpn = 1;

/// The connections that messages of the connection manager (QP 1) speak of: which queue pairs
/// they join, and who asked for them.
class Connections {
 public:
  struct Connection {
    std::string_view active{};  // addresses
    std::string_view passive{};
    std::uint32_t active_id = 0;
    std::uint32_t passive_id = 0;
    std::uint32_t active_qpn = 0;  // 0: unknown
    std::uint32_t passive_qpn = 0;
  };
  struct Place {
    std::uint32_t connection;
    bool by_active;  // the end that asked sent it
  };

  /// The connection that this message belongs to; nullopt: it is none of the connection manager's.
  std::optional<Place> take(const Observation& o, bool traced);
  [[nodiscard]] const std::vector<Connection>& all() const { return all_; }

 private:
  using Id = std::pair<std::string_view, std::uint32_t>;  // address and communication id

  std::uint32_t begin(const Way& way, std::uint32_t id);

  std::vector<Connection> all_;
  std::map<Id, Place> ids_;  // by_active: the id is the active end's
};

/// "ConnectRequest", as Wireshark calls it; empty: it is none.
[[nodiscard]] std::string_view connection_message_name(const Observation& o);

}  // namespace verbena::report
