// Forward declaration of ordered_json.h's type, for headers that do not need its definition.
#ifndef MOONRING_BASE_TEXT_ORDERED_JSON_FWD_H_
#define MOONRING_BASE_TEXT_ORDERED_JSON_FWD_H_

#include <nlohmann/json_fwd.hpp>

namespace moonring::base {

template <class Key, class T, class Less, class Allocator>
class IndexedMap;

using OrderedJson = nlohmann::basic_json<IndexedMap>;

}  // namespace moonring::base

#endif  // MOONRING_BASE_TEXT_ORDERED_JSON_FWD_H_
