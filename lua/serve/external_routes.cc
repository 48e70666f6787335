// Downloads of weights that were saved for other programs (external_weights). Clients fetch each
// file by an address that contains a token, without the key.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files/confinement.h"
#include "base/status/status_macros.h"
#include "lua/http/access_check.h"
#include "lua/serve/route_table.h"
#include "lua/serve/service_impl.h"

namespace moonring::serve {
namespace {

constexpr absl::string_view kFilePath = "/api/v1/external_files/";
constexpr uintmax_t kMostFileBytes = uintmax_t{2} << 30;  // a file is held in memory

std::string ExternalPath(const std::string& model, const std::string& name) {
  return absl::StrCat("tinker://", model, "/external_weights/", name);
}

std::vector<std::string> FilesOf(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.is_regular_file(error)) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

bool Impl::HasFileToken(absl::string_view path) const {
  if (!absl::StartsWith(path, kFilePath)) return false;
  const std::vector<absl::string_view> parts =
      absl::StrSplit(path.substr(kFilePath.size()), absl::MaxSplits('/', 1));
  return lua::IsSameSecret(file_token_, parts[0]);
}

Impl::Answer Impl::ExternalUrls(const Asked& asked, const Match& match) {
  const std::string &model = match.parts[0], &name = match.parts[1];
  const std::string path = ExternalPath(model, name);
  if (options_.external.empty() || !registry_->Fact("weights", path))
    return absl::NotFoundError(absl::StrCat("there are no saved weights ", path));
  const auto host = asked.headers.find("host"), proxied = asked.headers.find("x-forwarded-proto");
  // A proxy with TLS in front says how the client reached it.
  const bool is_tls = proxied != asked.headers.end() && proxied->second == "https";
  Json urls = Json::object();
  for (const std::string& file : FilesOf(absl::StrCat(options_.external, "/", model, "/", name))) {
    urls[file] = absl::StrCat(is_tls ? "https://" : "http://",
                              host == asked.headers.end() ? "" : host->second, kFilePath,
                              file_token_, "/", model, "/", name, "/", file);
  }
  return JsonResponse({{"urls", std::move(urls)}, {"expires", "2100-01-01T00:00:00Z"}});
}

Impl::Answer Impl::ExternalFile(const Asked&, const Match& match) {
  const std::string &model = match.parts[1], &name = match.parts[2], &file = match.parts[3];
  const std::string folder = absl::StrCat(options_.external, "/", model, "/", name);
  // Only published weights and files in their listing are served: no name leads out of the folder.
  if (options_.external.empty() || !registry_->Fact("weights", ExternalPath(model, name)))
    return absl::NotFoundError(
        absl::StrCat("there are no saved weights ", ExternalPath(model, name)));
  const std::vector<std::string> files = FilesOf(folder);
  if (std::find(files.begin(), files.end(), file) == files.end())
    return absl::NotFoundError(absl::StrCat(ExternalPath(model, name), " has no file ", file));
  const std::string path = absl::StrCat(folder, "/", file);
  RETURN_IF_ERROR(base::CheckReading(path));
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (!error && bytes > kMostFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, " has ", bytes, " bytes, and at most ", kMostFileBytes,
        " are sent; copy it from the service's output_dir: external_weights/", model, "/", name));
  }
  std::ifstream stream(path, std::ios::binary);
  std::string body((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (error || !stream || body.size() != bytes)
    return absl::UnavailableError(absl::StrCat(file, " cannot be read"));
  return Response{.status = 200, .type = "application/octet-stream", .body = std::move(body)};
}

}  // namespace moonring::serve
