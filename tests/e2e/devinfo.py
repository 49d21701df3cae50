"""ibv_devinfo -v, field by field: what a RoCE NIC shows, and what it may not look like."""

import dataclasses
import re

from cases import LO, VETHS, Case, check_output
from programs import CaseFailed, need_programs

# ---------------------------------------------------------------- expectations


def number(text):
    """The first number of a value: "4096 (5)", "0x00", "1000000kHZ"."""
    found = re.match(r"0x[0-9a-fA-F]+|\d+", text)
    if not found:
        raise ValueError(f"no number in \"{text}\"")
    return int(found.group(0), 0)


def equals(wanted):
    return lambda fields, text: text == wanted


def matches(expression):
    return lambda fields, text: re.fullmatch(expression, text) is not None


def between(low, high):
    return lambda fields, text: low <= number(text) <= high


def at_least(low):
    return between(low, (1 << 64) - 1)


def relation(holds):
    """Of this field's number and a function that finds others'."""
    return lambda fields, text: holds(number(text), lambda name: number(fields[name]))


def zero(fields, text):
    return number(text) == 0


def one_bit(fields, text):
    """A code in parentheses that has a meaning to the program."""
    code = int(re.search(r"\((\d+)\)$", text).group(1))
    return "invalid" not in text.lower() and code > 0 and code & (code - 1) == 0


# A real NIC's for comparison: mlx5 in RoCE mode. "Not of RoCE": zero there, too.
DEVICE = {
    "hca_id": matches(r"vb_\w+"),
    "transport": equals("InfiniBand (0)"),
    "fw_ver": matches(r"verbena \d+\.\d+\.\d+"),
    "node_guid": matches(r"(?!0000:0000:0000:0000)([0-9a-f]{4}:){3}[0-9a-f]{4}"),
    "sys_image_guid": lambda fields, text: text == fields["node_guid"],
    "vendor_id": equals("0xffffff"),  # nobody's: see front/verbs/identity.h
    "vendor_part_id": equals("1824"),
    "hw_ver": at_least(1),
    "board_id": equals("verbena"),
    "phys_port_cnt": equals("1"),
    "max_mr_size": at_least(1 << 40),
    "page_size_cap": relation(lambda n, _: n & 0x201000 == 0x201000),  # 4 KiB, 2 MiB
    "max_qp": at_least(1000),
    "max_qp_wr": at_least(8192),
    "device_cap_flags": relation(lambda n, _: n & 0x1400 == 0x1400),  # PORT_ACTIVE_EVENT, RNR NAKs
    "max_sge": between(16, 255),
    "max_sge_rd": relation(lambda n, of: 1 <= n <= of("max_sge")),
    "max_cq": at_least(1000),
    "max_cqe": relation(lambda n, of: n >= of("max_qp_wr")),
    "max_mr": at_least(1000),
    "max_pd": at_least(1000),
    "max_qp_rd_atom": between(1, 255),
    "max_ee_rd_atom": zero,  # reliable datagrams, which nobody has
    "max_res_rd_atom": relation(lambda n, of: n == of("max_qp") * of("max_qp_rd_atom")),
    "max_qp_init_rd_atom": relation(lambda n, of: n == of("max_qp_rd_atom")),
    "max_ee_init_rd_atom": zero,
    "atomic_cap": equals("ATOMIC_HCA (1)"),
    "max_ee": zero,
    "max_rdd": zero,
    "max_mw": at_least(1000),
    "max_raw_ipv6_qp": zero,
    "max_raw_ethy_qp": at_least(1),
    "max_mcast_grp": at_least(1),
    "max_mcast_qp_attach": at_least(1),
    "max_total_mcast_qp_attach": relation(
        lambda n, of: n == of("max_mcast_grp") * of("max_mcast_qp_attach")),
    "max_ah": at_least(1000),
    "max_fmr": zero,
    "max_srq": at_least(1000),
    "max_srq_wr": at_least(8192),
    "max_srq_sge": between(1, 255),
    "max_pkeys": at_least(1),
    "local_ca_ack_delay": between(1, 31),
    "completion timestamp_mask": at_least(1),
    "hca_core_clock": at_least(1),
    "device_cap_flags_ex": relation(lambda n, of: n == of("device_cap_flags") | FLAGS_EX),
    "max_tso": zero,
    "max_rwq_indirection_tables": at_least(1),
    "max_rwq_indirection_table_size": at_least(2),
    "rx_hash_function": equals("0x1"),  # Toeplitz
    "rx_hash_fields_mask": at_least(1),
    "max_wq_type_rq": at_least(1),
    "qp_rate_limit_min": zero,
    "qp_rate_limit_max": zero,
    "max_cq_count": at_least(1),
    "max_cq_period": at_least(1),
    "maximum available device memory": at_least(4096),
    "num_comp_vectors": at_least(1),
}
PORT = {
    "port": equals("1"),
    "state": equals("PORT_ACTIVE (4)"),
    "max_mtu": equals("4096 (5)"),
    "active_mtu": relation(lambda n, of: n in (256, 512, 1024, 2048, 4096) and n <= of("max_mtu")),
    "sm_lid": zero,
    "port_lid": zero,  # by which programs know RoCE
    "port_lmc": zero,
    "link_layer": equals("Ethernet"),
    "max_msg_sz": at_least(1 << 30),
    "port_cap_flags": equals("0x04010000"),  # CM, IP based GIDs: as mlx5
    "port_cap_flags2": zero,
    "max_vl_num": equals("1 (1)"),
    "bad_pkey_cntr": zero,
    "qkey_viol_cntr": zero,
    "sm_sl": zero,
    "pkey_tbl_len": relation(lambda n, of: 1 <= n <= of("max_pkeys")),
    "gid_tbl_len": between(16, 1024),  # a table of its own length
    "subnet_timeout": zero,
    "init_type_reply": zero,
    "active_width": one_bit,
    "active_speed": one_bit,
    "phys_state": equals("LINK_UP (5)"),
}
CAPABILITIES = {"CURR_QP_STATE_MOD", "PORT_ACTIVE_EVENT", "RC_RNR_NAK_GEN", "SYS_IMAGE_GUID",
                "MANAGED_FLOW_STEERING", "MEM_WINDOW", "MEM_WINDOW_TYPE_2B", "XRC", "BAD_PKEY_CNTR",
                "BAD_QKEY_CNTR", "UD_AV_PORT_ENFORCE", "MEM_MGT_EXTENSIONS"}
FLAGS_EX = 1 << 38 | 1 << 40  # FLUSH_GLOBAL, ATOMIC_WRITE: no ibv_devinfo has names for them
ODP = {"general_odp_caps": {"ODP_SUPPORT", "ODP_SUPPORT_IMPLICIT"},
       "rc_odp_caps": {f"SUPPORT_{what}" for what in
                       ("SEND", "RECV", "WRITE", "READ", "ATOMIC", "SRQ", "FLUSH", "ATOMIC_WRITE")},
       "uc_odp_caps": {f"SUPPORT_{what}" for what in ("SEND", "RECV", "WRITE", "SRQ")},
       "ud_odp_caps": {f"SUPPORT_{what}" for what in ("SEND", "RECV", "SRQ")}}
ODP["xrc_odp_caps"] = ODP["rc_odp_caps"]
# Older ones have no names for two of them.
UNKNOWN_ODP = ("Unknown flags: 0xC0", {"SUPPORT_FLUSH", "SUPPORT_ATOMIC_WRITE"})
# Not of every release.
NEWER = {"effective_speed": matches(r"\d+\.\d Gbps")}
HEADINGS = {"tso_caps", "rss_caps", "packet_pacing_caps", "cq moderation caps"}

# ---------------------------------------------------------------- the case


class Report:
    """What ibv_devinfo -v printed: fields, words below a field, GIDs by index."""

    def __init__(self, output):
        self.fields, self.words, self.gids = {}, {}, {}
        last = ""
        for line in filter(None, map(str.strip, output.splitlines())):
            name, colon, value = (part.strip() for part in line.partition(":"))
            if gid := re.fullmatch(r"GID\[\s*(\d+)\]", name):
                self.gids[int(gid.group(1))] = value
            elif line == UNKNOWN_ODP[0]:
                self.words[last] |= UNKNOWN_ODP[1]
            elif name == "Unknown flags":
                self.words.setdefault(last, set()).add(line)
            elif colon and value:
                self.fields[name], last = value, name
            elif colon:
                last = name
                self.words.setdefault(last, set())
            elif line != "tag matching not supported":
                self.words.setdefault(last, set()).add(line)


@dataclasses.dataclass(frozen=True)
class Devinfo(Case):
    mtu: int = 4096

    def run(self, host, network):
        need_programs("ibv_devinfo")
        end = network.server
        status, output = host.run(end.namespace, ["ibv_devinfo", "-v", "-d", end.device])
        check_output(status, output, 0, ())
        report = Report(output)
        wrong = [*self._wrong_fields(report), *self._wrong_words(report),
                 *self._wrong_gids(report, end)]
        if wrong:
            raise CaseFailed("\n    ".join(["ibv_devinfo -v", *wrong]))
        return f"{len(report.fields)} fields"

    def _wrong_fields(self, report):
        table = {**DEVICE, **PORT, **{n: f for n, f in NEWER.items() if n in report.fields}}
        for name in sorted(set(report.fields) - set(table)):
            yield f"{name}: {report.fields[name]}: a field that this test doesn't know"
        for name, fits in table.items():
            text = report.fields.get(name)
            if text is None:
                yield f"{name} is missing"
            elif not fits(report.fields, text):
                yield f"{name}: {text} is not what a NIC would say"
        if number(report.fields.get("active_mtu", "0")) != self.mtu:
            yield f"active_mtu is not {self.mtu}"

    @staticmethod
    def _wrong_words(report):
        expected = {"device_cap_flags": CAPABILITIES, "supported_qp": {"SUPPORT_RAW_PACKET"}, **ODP,
                    "device_cap_flags_ex": {f"Unknown flags: {FLAGS_EX:#X}".replace("X", "x", 1)}}
        for name, words in expected.items():
            if report.words.get(name) != words:
                yield f"{name}: {sorted(report.words.get(name, ()))} instead of {sorted(words)}"
        for name in sorted(set(report.words) - set(expected) - HEADINGS):
            yield f"{name}: {sorted(report.words[name])}: words that this test doesn't know"

    @staticmethod
    def _wrong_gids(report, end):
        for address in (f"::ffff:{end.addresses[4]}", end.addresses[6]):
            if f"{address}, RoCE v2" not in report.gids.values():
                yield f"no GID {address}, RoCE v2 in {report.gids}"
        for index, text in report.gids.items():
            if not text.endswith(", RoCE v2") or index >= number(report.fields["gid_tbl_len"]):
                yield f"GID[{index}]: {text}"


@dataclasses.dataclass(frozen=True)
class Rate(Case):
    """The speed is the interface's: a veth pair says 10 Gbit/s. The same in sysfs."""

    def run(self, host, network):
        end = network.server
        rate = f"/sys/class/infiniband/{end.device}/ports/1/rate"
        status, output = host.run(end.namespace, ["cat", rate])
        check_output(status, output, 0, (r"\A10 Gb/sec \(1X FDR10\)\n\Z",))
        status, output = host.run(end.namespace, ["ibv_devinfo", "-v", "-d", end.device])
        return check_output(status, output, 0, (r"active_width:\s+1X \(1\)",
                                                r"active_speed:\s+10.0 Gbps \(8\)"))


def all_cases():
    return [
        Devinfo(LO, "devinfo/every-field", quick=True),
        *(Devinfo(topology, "devinfo/every-field", mtu=mtu)
          for topology, mtu in zip(VETHS, (1024, 4096))),
        Rate(VETHS[0], "devinfo/rate"),
    ]
