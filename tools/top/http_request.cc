#include "tools/top/http_request.h"

#include <fmt/format.h>

#include <algorithm>

namespace verbena::top {
namespace {

constexpr std::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kTextType = "text/plain; charset=utf-8";

enum class Body : bool { shown, left_out };

std::string response(std::string_view status, std::string_view type, std::string_view body,
                     Body shown = Body::shown, std::string_view more = "") {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n{}"
      "Connection: close\r\n\r\n{}",
      status, type, body.size(), more, shown == Body::shown ? body : "");
}

std::string problem(std::string_view status, std::string_view more = "") {
  return response(status, kTextType, fmt::format("{}\n", status), Body::shown, more);
}

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c < 0x7f; });
}

struct RequestLine {
  std::string_view method, target, version;
};

std::optional<RequestLine> parse(std::string_view line) {
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == line.npos || first == last) return std::nullopt;
  const RequestLine parsed{line.substr(0, first), line.substr(first + 1, last - first - 1),
                           line.substr(last + 1)};
  const bool fine = !parsed.method.empty() && is_printable(parsed.method) &&
                    parsed.target.starts_with('/') && is_printable(parsed.target) &&
                    parsed.version.size() == 8 && parsed.version.starts_with("HTTP/");
  return fine ? std::optional{parsed} : std::nullopt;
}

std::string answer_to_line(std::string_view line, const std::function<std::string()>& metrics) {
  const auto request = parse(line);
  if (!request) return problem("400 Bad Request");
  if (!request->version.starts_with("HTTP/1.")) return problem("505 HTTP Version Not Supported");
  if (request->method != "GET" && request->method != "HEAD") {
    return problem("405 Method Not Allowed", "Allow: GET, HEAD\r\n");
  }
  const Body body = request->method == "HEAD" ? Body::left_out : Body::shown;
  const auto path = request->target.substr(0, request->target.find('?'));
  if (path == "/metrics") return response("200 OK", kMetricsType, metrics(), body);
  if (path == "/") return response("200 OK", kTextType, "metrics of Verbena: /metrics\n", body);
  return response("404 Not Found", kTextType, "there is only /metrics\n", body);
}

}  // namespace

std::optional<std::string> answer_to(std::string_view request,
                                     const std::function<std::string()>& metrics) {
  // A line may end without its CR (RFC 9112, 2.2).
  const bool complete =
      request.find("\r\n\r\n") != request.npos || request.find("\n\n") != request.npos;
  if (!complete) {
    if (request.size() <= kMaxRequest) return std::nullopt;
    return problem("431 Request Header Fields Too Large");
  }
  auto line = request.substr(0, request.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return answer_to_line(line, metrics);
}

std::string too_slow() { return problem("408 Request Timeout"); }

}  // namespace verbena::top
