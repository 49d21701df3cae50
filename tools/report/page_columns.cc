#include "tools/report/page_columns.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

#include "packet/cm_print.h"
#include "packet/deth.h"
#include "packet/packet.h"
#include "tools/report/header_layout.h"
#include "tools/report/rules.h"
#include "tools/report/text_width.h"
#include "tools/report/wording.h"

namespace verbena::report {
namespace {

using Json = nlohmann::json;

/// One field of all events or requests.
class Column {
 public:
  void byte(std::uint8_t v) { bytes_.push_back(v); }
  void number(std::uint64_t v) {
    for (; v >= 0x80; v >>= 7) bytes_.push_back(static_cast<std::uint8_t>(v | 0x80));
    bytes_.push_back(static_cast<std::uint8_t>(v));
  }
  void signed_number(std::int64_t v) {
    number((static_cast<std::uint64_t>(v) << 1) ^ static_cast<std::uint64_t>(v >> 63));
  }
  /// 0 for none, so that it stays short.
  void optional(bool there, std::int64_t v) {
    number(there ? ((static_cast<std::uint64_t>(v) << 1) ^ static_cast<std::uint64_t>(v >> 63)) + 1
                 : 0);
  }
  [[nodiscard]] const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
};

/// Each text once; the columns have its place.
class Texts {
 public:
  Texts() { place(""); }
  std::uint64_t place(const std::string& text) {
    const auto [at, fresh] = places_.try_emplace(text, places_.size());
    if (fresh) list_.push_back(printable(text));
    return at->second;
  }
  [[nodiscard]] Json json() const { return list_; }

 private:
  std::unordered_map<std::string, std::uint64_t> places_;
  std::vector<std::string> list_;
};

using Columns = std::vector<std::pair<std::string_view, Column>>;

std::uint64_t bits_of(const PacketFlags& f) {
  const bool bits[] = {f.again,       f.lost,           f.duplicate,  f.dropped,
                       f.ack_request, f.response,       f.connection, f.nak,
                       f.rnr,         f.one_sided_view, f.ignored,    f.not_taken};
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < std::size(bits); ++i) value |= std::uint64_t{bits[i]} << i;
  return value;
}

/// The headers as differences to those of the packet before in the same direction: nearly all are
/// 0, which compresses well.
class HeaderColumn {
 public:
  void add(const Event& e) {
    lengths_.number(e.headers.size());
    std::vector<std::uint8_t>& before = before_[{e.conversation, e.side}];
    for (std::size_t i = 0; i < e.headers.size(); ++i) {
      const std::uint8_t earlier = i < before.size() ? before[i] : std::uint8_t{0};
      bytes_.byte(static_cast<std::uint8_t>(e.headers[i] - earlier));
    }
    if (!e.headers.empty()) before = e.headers;
  }
  void move_to(Columns& columns) && {
    columns.emplace_back("header_length", std::move(lengths_));
    columns.emplace_back("headers", std::move(bytes_));
  }

 private:
  Column lengths_;
  Column bytes_;
  std::map<std::pair<std::uint32_t, Side>, std::vector<std::uint8_t>> before_;
};

std::int64_t difference(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::int64_t>(a) - static_cast<std::int64_t>(b);
}

void add_event_numbers(Columns& columns, const std::vector<Event>& events, Texts& texts) {
  Column kind, flags, conversation, time, transit, request, opcode, psn, bytes, what, note, rule;
  Event before;
  before.request = 0;
  for (const Event& e : events) {
    kind.byte(static_cast<std::uint8_t>(static_cast<unsigned>(e.kind) |
                                        (e.side == Side::right ? 0x80u : 0u)));
    flags.number(bits_of(e.flags));
    conversation.signed_number(difference(e.conversation, before.conversation));
    time.signed_number(e.time - before.time);
    transit.optional(e.arrived != kNever, e.arrived - (e.arrived != kNever ? e.time : 0));
    request.optional(e.request != kNone, difference(e.request, before.request));
    opcode.byte(e.opcode);
    psn.signed_number(difference(e.psn, before.psn));
    bytes.number(e.bytes);
    what.number(texts.place(e.kind == EventKind::retry ? retry_text(e.what) : e.what));
    note.number(texts.place(e.flags.dropped || e.flags.ignored ? drop_text(e.note) : e.note));
    rule.byte(rule_of(e));
    before.conversation = e.conversation;
    before.time = e.time;
    before.psn = e.psn;
    if (e.request != kNone) before.request = e.request;
  }
  for (auto& [name, column] :
       {std::pair{"kind", &kind}, std::pair{"flags", &flags},
        std::pair{"conversation", &conversation}, std::pair{"time", &time},
        std::pair{"transit", &transit}, std::pair{"request", &request},
        std::pair{"opcode", &opcode}, std::pair{"psn", &psn}, std::pair{"bytes", &bytes},
        std::pair{"what", &what}, std::pair{"note", &note}, std::pair{"rule", &rule}}) {
    columns.emplace_back(name, std::move(*column));
  }
}

void add_headers(Columns& columns, const std::vector<Event>& events) {
  HeaderColumn headers;
  for (const Event& e : events) headers.add(e);
  std::move(headers).move_to(columns);
}

void add_requests(Columns& columns, const std::vector<Request>& requests, Texts& texts) {
  Column end, wr_id, op, bytes, posted, first_sent, last_sent, completed, status, failed, packets,
      again, waiting, on_the_wire, repeating;
  for (const Request& r : requests) {
    end.number(r.conversation * std::uint64_t{2} + (r.side == Side::right ? 1 : 0));
    wr_id.number(texts.place(r.wr_id));
    op.number(texts.place(r.op));
    bytes.number(r.bytes);
    posted.optional(r.posted != kNever, r.posted);
    first_sent.optional(r.first_sent != kNever, r.first_sent);
    last_sent.optional(r.last_sent != kNever, r.last_sent);
    completed.optional(r.completed != kNever, r.completed);
    status.number(texts.place(r.status));
    failed.byte(r.failed ? 1 : 0);
    packets.number(r.packets);
    again.number(r.packets_again);
    waiting.signed_number(r.waiting);
    on_the_wire.signed_number(r.on_the_wire);
    repeating.signed_number(r.repeating);
  }
  for (auto& [name, column] :
       {std::pair{"request_end", &end}, std::pair{"request_wr_id", &wr_id},
        std::pair{"request_op", &op}, std::pair{"request_bytes", &bytes},
        std::pair{"request_posted", &posted}, std::pair{"request_first_sent", &first_sent},
        std::pair{"request_last_sent", &last_sent}, std::pair{"request_completed", &completed},
        std::pair{"request_status", &status}, std::pair{"request_failed", &failed},
        std::pair{"request_packets", &packets}, std::pair{"request_again", &again},
        std::pair{"request_waiting", &waiting}, std::pair{"request_on_the_wire", &on_the_wire},
        std::pair{"request_repeating", &repeating}}) {
    columns.emplace_back(name, std::move(*column));
  }
}

// ---------------------------------------------------------------- what there is little of

Json layout_json() {
  Json list = Json::array();
  for (const Header& header : headers()) {
    Json fields = Json::array();
    for (const Field& f : header.fields) {
      fields.push_back({f.name, f.offset, f.width, text(f.print), f.names});
    }
    list.push_back({{"name", header.name},
                    {"title", header.title},
                    {"size", header.size},
                    {"fields", std::move(fields)}});
  }
  return list;
}

Json opcodes_json() {
  Json list = Json::object();
  for (unsigned i = 0; i < 256; ++i) {
    const auto opcode = static_cast<packet::Opcode>(i);
    const auto names = headers_of(opcode);
    if (!names.empty()) list[std::to_string(i)] = {packet::info_of(opcode).name, names};
  }
  return list;
}

Json rules_json() {
  Json list = Json::array();
  for (const Rule& rule : rules()) list.push_back({rule.number, rule.text});
  return list;
}

Json end_json(const End& end) {
  return {{"qpn", end.qpn},
          {"program", printable(end.program)},
          {"device", printable(end.device)},
          {"address", printable(end.address)},
          {"traced", end.traced},
          {"name", number_text(end)}};
}

Json conversations_json(const std::vector<Conversation>& conversations) {
  Json list = Json::array();
  for (const Conversation& c : conversations) {
    list.push_back({{"left", end_json(c.left)},
                    {"right", end_json(c.right)},
                    {"type", printable(c.type)},
                    {"mtu", c.mtu}});
  }
  return list;
}

Json sources_json(const std::vector<Source>& sources) {
  Json list = Json::array();
  for (const Source& s : sources) {
    list.push_back({{"file", printable(s.file)},
                    {"host", printable(s.host)},
                    {"offset", s.offset},
                    {"shifted", s.shifted}});
  }
  return list;
}

Json remarks_json(const std::vector<std::string>& remarks) {
  Json list = Json::array();
  for (const std::string& remark : remarks) list.push_back(printable(remark));
  return list;
}

/// What the messages of the connection manager say: event to text.
Json connection_json(const std::vector<Event>& events) {
  constexpr std::size_t kMad = packet::Bth::kSize + packet::Deth::kSize;
  Json texts = Json::object();
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Event& e = events[i];
    if (!e.flags.connection || e.headers.size() < kMad + packet::kMadSize) continue;
    const auto mad = packet::decode_cm(std::span{e.headers}.subspan(kMad).first(packet::kMadSize));
    texts[std::to_string(i)] = std::visit(
        [](const auto& v) {
          if constexpr (std::is_same_v<std::decay_t<decltype(v)>, packet::CmMad>) {
            return packet::text(v);
          } else {
            return std::string{packet::text(v)};
          }
        },
        mad);
  }
  return texts;
}

Json json_of(const Model& model, const Texts& texts, const Columns& columns) {
  Json places = Json::object();
  std::size_t at = 0;
  for (const auto& [name, column] : columns) {
    places[std::string{name}] = {at, column.bytes().size()};
    at += column.bytes().size();
  }
  return {{"events", model.events.size()},
          {"requests", model.requests.size()},
          {"wall", model.wall},
          {"sources", sources_json(model.sources)},
          {"conversations", conversations_json(model.conversations)},
          {"remarks", remarks_json(model.remarks)},
          {"connection", connection_json(model.events)},
          {"texts", texts.json()},
          {"layout", layout_json()},
          {"opcodes", opcodes_json()},
          {"rules", rules_json()},
          {"columns", std::move(places)}};
}

}  // namespace

std::vector<std::uint8_t> columns_of(const Model& model) {
  Texts texts;
  Columns columns;
  add_event_numbers(columns, model.events, texts);
  add_headers(columns, model.events);
  add_requests(columns, model.requests, texts);
  const std::string json = json_of(model, texts, columns).dump();
  std::vector<std::uint8_t> bytes;
  for (unsigned shift = 0; shift < 32; shift += 8) {
    bytes.push_back(static_cast<std::uint8_t>(json.size() >> shift));
  }
  bytes.insert(bytes.end(), json.begin(), json.end());
  for (const auto& [name, column] : columns) {
    bytes.insert(bytes.end(), column.bytes().begin(), column.bytes().end());
  }
  return bytes;
}

}  // namespace verbena::report
