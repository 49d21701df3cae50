// The kernel's connection management messages: decoded as Wireshark reads them, and encoded again
// to the same bytes.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "packet/cm_mad.h"
#include "packet/cm_print.h"
#include "packet/cm_steering.h"
#include "packet/ip_cm_header.h"
#include "packet/packet.h"
#include "tests/support/pcap.h"

#ifndef VERBENA_GOLDEN_DIR
#define VERBENA_GOLDEN_DIR "tests/golden"
#endif

namespace verbena::packet {
namespace {

using Fields = std::map<std::string, std::string>;

/// A line of cm-mads.txt.
struct Listed {
  std::string recording;
  std::size_t packet = 0;  // from 1
  std::string message;
  Fields fields;
};

std::vector<Listed> listed() {
  std::ifstream in{VERBENA_GOLDEN_DIR "/cm-mads.txt"};
  EXPECT_TRUE(in) << "no cm-mads.txt in " VERBENA_GOLDEN_DIR;
  std::vector<Listed> out;
  std::string recording;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("== ")) {
      recording = line.substr(3);
      continue;
    }
    Listed l{.recording = recording, .packet = 0, .message = {}, .fields = {}};
    std::istringstream words{line};
    words >> l.packet >> l.message;
    for (std::string word; words >> word;) {
      const auto equals = word.find('=');
      l.fields[word.substr(0, equals)] = word.substr(equals + 1);
    }
    out.push_back(l);
  }
  return out;
}

std::vector<test::Captured> read(const std::string& recording) {
  auto packets = test::read_pcap_file(std::string{VERBENA_GOLDEN_DIR} + "/" + recording);
  if (!packets) {
    ADD_FAILURE() << packets.error().message;
    return {};
  }
  return *std::move(packets);
}

bool to_gsi(const test::Captured& c) {
  const auto parsed = parse(c.payload);
  const auto* p = std::get_if<Packet>(&parsed);
  return p != nullptr && p->bth.opcode == Opcode::ud_send_only && p->bth.destination == kGsiQpn;
}

std::span<const std::uint8_t> mad_of(const test::Captured& c) {
  return std::span{c.payload}.subspan(CmOffsets::kMad, kMadSize);
}

std::string hex(std::uint64_t v, int digits) {
  std::array<char, 19> out{};
  std::snprintf(out.data(), out.size(), "0x%0*llx", digits, static_cast<unsigned long long>(v));
  return out.data();
}

std::string hex_bytes(std::span<const std::uint8_t> data) {
  std::string out;
  for (const std::uint8_t b : data) out += hex(b, 2).substr(2);
  const auto last = out.find_last_not_of('0');
  return last == std::string::npos ? "0" : out.substr(0, last + 1);
}

std::string hex(CommId id) { return hex(id.value(), 8); }

Fields fields_of(const CmReq& m) {
  const CmPath& p = m.primary;
  const auto ip = *decode_ip_cm_header(m.private_data);
  Fields f{{"localcommid", hex(m.local_id)},
           {"localcaguid", hex(m.ca_guid, 16)},
           {"localqkey", hex(m.qkey, 8)},
           {"localqpn", hex(m.qpn.value(), 6)},
           {"responderres", hex(m.responder_resources, 2)},
           {"localeecn", hex(m.local_eecn, 6)},
           {"initdepth", hex(m.initiator_depth, 2)},
           {"remoteeecn", hex(m.remote_eecn, 6)},
           {"remoteresptout", hex(m.remote_response_timeout.value(), 2)},
           {"transpsvctype", hex(static_cast<unsigned>(m.transport), 2)},
           {"e2eflowctrl", hex(m.flow_control, 2)},
           {"startpsn", hex(m.starting_psn.value(), 6)},
           {"localresptout", hex(m.local_response_timeout.value(), 2)},
           {"retrcount", hex(m.retry_count, 2)},
           {"pkey", hex(m.pkey, 4)},
           {"pppmtu", hex(static_cast<unsigned>(m.mtu), 2)},
           {"rdcexist", hex(m.rdc_exists, 2)},
           {"rnrretrcount", hex(m.rnr_retry_count, 2)},
           {"maxcmretr", hex(m.max_cm_retries, 2)},
           {"srq", hex(m.srq, 2)},
           {"ext_transport", hex(m.extended_transport, 2)},
           {"prim_locallid", std::to_string(p.local_lid)},
           {"prim_remotelid", std::to_string(p.remote_lid)},
           {"prim_tfcclass", hex(p.traffic_class, 2)},
           {"prim_hoplim", hex(p.hop_limit, 2)},
           {"prim_sl", hex(p.service_level, 2)},
           {"prim_subnetlocal", hex(p.subnet_local, 2)},
           {"prim_localacktout", hex(p.ack_timeout.value(), 2)},
           {"serviceid.protocol", hex(m.service.value() >> 16 & 0xff, 2)},
           {"serviceid.dport", hex(m.service.port(), 4)},
           {"ip_cm.majv", "0x00"},
           {"ip_cm.ipv", ip.source.is_v4() ? "0x04" : "0x06"},
           {"ip_cm.sport", hex(ip.source_port, 4)},
           {"ip_cm.private", hex_bytes(std::span{m.private_data}.subspan(IpCmHeader::kSize))}};
  const bool v4 = p.local.is_v4();
  f[v4 ? "prim_localgid_ipv4" : "prim_localgid"] = p.local.text();
  f[v4 ? "prim_remotegid_ipv4" : "prim_remotegid"] = p.remote.text();
  f[v4 ? "ip_cm.sip4" : "ip_cm.sip6"] = ip.source.text();
  f[v4 ? "ip_cm.dip4" : "ip_cm.dip6"] = ip.destination.text();
  return f;
}

Fields fields_of(const CmRep& m) {
  return {{"localcommid", hex(m.local_id)},
          {"remotecommid", hex(m.remote_id)},
          {"localqkey", hex(m.qkey, 8)},
          {"localqpn", hex(m.qpn.value(), 6)},
          {"localeecn", hex(m.eecn, 6)},
          {"startpsn", hex(m.starting_psn.value(), 6)},
          {"respres", hex(m.responder_resources, 2)},
          {"initdepth", hex(m.initiator_depth, 2)},
          {"tgtackdelay", hex(m.target_ack_delay.value(), 2)},
          {"failoveracc", hex(m.failover, 2)},
          {"e2eflowctrl", hex(m.flow_control, 2)},
          {"rnrretrcount", hex(m.rnr_retry_count, 2)},
          {"srq", hex(m.srq, 2)},
          {"localcaguid", hex(m.ca_guid, 16)},
          {"private", hex_bytes(m.private_data)}};
}

Fields fields_of(const CmRej& m) {
  return {{"localcommid", hex(m.local_id)},
          {"remotecommid", hex(m.remote_id)},
          {"msgrej", hex(static_cast<unsigned>(m.message), 2)},
          {"rejinfolen", hex(m.info_length, 2)},
          {"reason", hex(static_cast<unsigned>(m.reason), 4)},
          {"ari", hex_bytes(m.info)},
          {"private", hex_bytes(m.private_data)}};
}

/// RTU, DREP.
template <typename Message>
Fields plain_fields_of(const Message& m) {
  return {{"localcommid", hex(m.local_id)},
          {"remotecommid", hex(m.remote_id)},
          {"private", hex_bytes(m.private_data)}};
}
Fields fields_of(const CmRtu& m) { return plain_fields_of(m); }
Fields fields_of(const CmDrep& m) { return plain_fields_of(m); }
Fields fields_of(const CmDreq& m) {
  Fields f = plain_fields_of(m);
  f["remoteqpneecn"] = hex(m.remote_qpn.value(), 6);
  return f;
}
/// Wireshark reads no fields of the others.
template <typename Message>
Fields fields_of(const Message&) {
  return {};
}

TEST(CmMads, DecodeAsWiresharkReadsThem) {
  const auto lines = listed();
  EXPECT_EQ(lines.size(), 29u);
  for (const Listed& l : lines) {
    const auto packets = read(l.recording);
    ASSERT_LE(l.packet, packets.size()) << l.recording;
    const auto decoded = decode_cm(mad_of(packets[l.packet - 1]));
    ASSERT_TRUE(std::holds_alternative<CmMad>(decoded)) << text(std::get<CmMalformed>(decoded));
    const CmMad& mad = std::get<CmMad>(decoded);
    EXPECT_EQ(text(attribute_of(mad.message)), l.message);
    Fields fields = std::visit([](const auto& m) { return fields_of(m); }, mad.message);
    fields["tid"] = hex(mad.transaction, 16);
    EXPECT_EQ(fields, l.fields) << l.recording << " packet " << l.packet << ": " << text(mad);
  }
}

TEST(CmMads, EncodeToTheSameBytes) {
  for (const Listed& l : listed()) {
    const auto packets = read(l.recording);
    const auto bytes = mad_of(packets.at(l.packet - 1));
    const auto decoded = decode_cm(bytes);
    const CmMad& mad = std::get<CmMad>(decoded);
    EXPECT_TRUE(std::ranges::equal(encode_cm(mad), bytes)) << text(mad);
  }
}

TEST(CmMads, AreAllListed) {
  std::size_t mads = 0;
  for (const char* name : {"cm-mckey", "cm-rdma-client", "cm-reject-noport", "cm-rping",
                           "cm-rping-ipv6", "cm-rsocket", "cm-ucmatose", "cm-udaddy-sidr"}) {
    const auto packets = read(std::string{name} + ".pcap");
    mads += static_cast<std::size_t>(std::ranges::count_if(packets, to_gsi));
  }
  EXPECT_EQ(mads, listed().size());
}

CmMad mad_at(const std::string& recording, std::size_t packet) {
  const auto packets = read(recording + ".pcap");
  return std::get<CmMad>(decode_cm(mad_of(packets.at(packet - 1))));
}

TEST(CmMads, SidrSaysWhatUdaddyGotFromIt) {
  const auto request = std::get<CmSidrReq>(mad_at("cm-udaddy-sidr", 1).message);
  EXPECT_EQ(request.request_id, CommId{0x620b2ce5});
  EXPECT_EQ(request.pkey, kDefaultPkey);
  EXPECT_EQ(request.service, (ServiceId{PortSpace::udp, 7174}));
  const auto ip = decode_ip_cm_header(request.private_data);
  ASSERT_TRUE(ip.has_value());
  EXPECT_EQ(ip->source.text(), "10.77.0.3");
  EXPECT_EQ(ip->destination.text(), "10.77.0.2");
  EXPECT_EQ(ip->source_port, 0x99e4);

  const auto reply = std::get<CmSidrRep>(mad_at("cm-udaddy-sidr", 2).message);
  EXPECT_EQ(reply.request_id, request.request_id);
  EXPECT_EQ(reply.status, SidrStatus::valid);
  EXPECT_EQ(reply.service, request.service);
  EXPECT_EQ(reply.qkey, 0x0123'4567u);
  // The next packets go to that queue pair.
  const auto packets = read("cm-udaddy-sidr.pcap");
  EXPECT_EQ(reply.qpn, Qpn{load_be24(&packets.at(2).payload[5])});
}

TEST(CmMads, ReadAsPeopleWouldSayIt) {
  EXPECT_EQ(text(mad_at("cm-rping", 1)),
            "REQ tid 0x00000002e52c0b66 from 0x660b2ce5 service tcp 7174 rc qp 0x00010a psn "
            "0xe7ad31 mtu 4096 responder 1 initiator 1 retry 7 rnr_retry 7 guid 0x505400fffe770003 "
            "path 10.77.0.3 10.77.0.2 ack_timeout 19 10.77.0.3 port 44125 to 10.77.0.2");
  EXPECT_EQ(text(mad_at("cm-rsocket", 2)),
            "REP tid 0x00000002e52c0b64 from 0x8c153936 to 0x640b2ce5 qp 0x000378 psn 0xd8d892 "
            "responder 0 initiator 0 rnr_retry 7 ack_delay 15 flow_control guid "
            "0x505400fffe770002 private 38");
  EXPECT_EQ(text(mad_at("cm-reject-noport", 2)),
            "REJ tid 0x00000002e52c0b60 from 0x00000000 to 0x600b2ce5 of REQ reason 8 invalid "
            "service id");
  EXPECT_EQ(text(mad_at("cm-udaddy-sidr", 2)),
            "SIDR_REP tid 0x00000002e52c0b62 to 0x620b2ce5 service udp 7174 status 0 valid qp "
            "0x00037a qkey 0x01234567");
}

/// At its fixed place, each names the process that it is for.
TEST(CmMads, AreSteeredByWhatTheyCarry) {
  for (const Listed& l : listed()) {
    const auto packets = read(l.recording);
    const auto& payload = packets.at(l.packet - 1).payload;
    const auto target = cm_target(payload);
    ASSERT_TRUE(target.has_value()) << l.recording << " packet " << l.packet;
    const auto decoded = decode_cm(mad_of(packets.at(l.packet - 1)));
    const CmMessage& message = std::get<CmMad>(decoded).message;
    const auto expected = std::visit(
        [](const auto& m) -> CmTarget {
          if constexpr (requires { m.remote_id; }) return ToSlot{m.remote_id.slot()};
          if constexpr (requires {
                          m.qkey;
                          m.request_id;
                        })
            return ToSlot{m.request_id.slot()};
          if constexpr (requires { m.service; }) return ToListener{m.service};
          return ToEveryListener{};
        },
        message);
    EXPECT_EQ(*target, expected) << l.recording << " packet " << l.packet;
  }
}

}  // namespace
}  // namespace verbena::packet
