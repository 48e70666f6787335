// A JSON value whose objects keep their keys in order, and find one of n keys in log n steps.
//
// nlohmann::ordered_json compares a new key with every earlier one, so reading an object of n keys
// takes n squared steps: a minute for the index of a model's 90,000 weights, and as long for a
// malicious file of 1 MB. The type here uses a tree instead of a hash table, because an attacker
// can choose keys with the same hash.
#ifndef MOONRING_BASE_TEXT_ORDERED_JSON_H_
#define MOONRING_BASE_TEXT_ORDERED_JSON_H_

#include <compare>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text/ordered_json_fwd.h"

namespace moonring::base {

// The map type that nlohmann::basic_json requires for an object. Entries are in insertion order and
// keep their memory address. Inserting an existing key changes nothing. `Less` and `Allocator` are
// ignored.
template <class Key, class T, class Less, class Allocator>
class IndexedMap {
 public:
  using key_type = Key;
  using mapped_type = T;
  using value_type = std::pair<const Key, T>;
  using key_compare = std::equal_to<>;
  using Entries = std::list<value_type>;
  using iterator = typename Entries::iterator;
  using const_iterator = typename Entries::const_iterator;
  using size_type = size_t;

  IndexedMap() = default;
  template <class Iterator>
  IndexedMap(Iterator first, Iterator last) {
    insert(first, last);
  }
  IndexedMap(std::initializer_list<value_type> entries)
      : IndexedMap(entries.begin(), entries.end()) {}
  IndexedMap(const IndexedMap& other) : entries_(other.entries_) { IndexIfMany(); }
  IndexedMap(IndexedMap&&) = default;
  IndexedMap& operator=(IndexedMap other) {
    entries_.swap(other.entries_);
    index_.swap(other.index_);
    return *this;
  }

  iterator begin() { return entries_.begin(); }
  iterator end() { return entries_.end(); }
  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }
  const_iterator cbegin() const { return entries_.begin(); }
  const_iterator cend() const { return entries_.end(); }
  bool empty() const { return entries_.empty(); }
  size_type size() const { return entries_.size(); }
  size_type max_size() const { return entries_.max_size(); }

  iterator find(std::string_view key) {
    if (index_ != nullptr) {
      const auto found = index_->find(key);
      return found == index_->end() ? end() : found->second;
    }
    iterator at = begin();
    while (at != end() && at->first != key) ++at;
    return at;
  }
  const_iterator find(std::string_view key) const {
    return const_cast<IndexedMap*>(this)->find(key);
  }
  size_type count(std::string_view key) const { return find(key) == end() ? 0 : 1; }

  template <class AnyKey, class AnyValue>
  std::pair<iterator, bool> emplace(AnyKey&& key, AnyValue&& value) {
    if (const iterator there = find(key); there != end()) return {there, false};
    entries_.emplace_back(std::forward<AnyKey>(key), std::forward<AnyValue>(value));
    const iterator added = std::prev(end());
    if (index_ != nullptr) {
      index_->emplace(added->first, added);
    } else {
      IndexIfMany();
    }
    return {added, true};
  }
  std::pair<iterator, bool> insert(const value_type& entry) {
    return emplace(entry.first, entry.second);
  }
  template <class Iterator>
  void insert(Iterator first, Iterator last) {
    for (; first != last; ++first) emplace(first->first, first->second);
  }
  template <class AnyKey>
  T& operator[](AnyKey&& key) {
    return emplace(std::forward<AnyKey>(key), T()).first->second;
  }

  iterator erase(iterator at) {
    if (index_ != nullptr) index_->erase(at->first);
    return entries_.erase(at);
  }
  iterator erase(iterator first, iterator last) {
    while (first != last) first = erase(first);
    return last;
  }
  size_type erase(std::string_view key) {
    const iterator there = find(key);
    if (there == end()) return 0;
    erase(there);
    return 1;
  }
  void clear() {
    index_.reset();
    entries_.clear();
  }

  // Compares the order too, like nlohmann's ordered objects.
  friend bool operator==(const IndexedMap& a, const IndexedMap& b) {
    return a.entries_ == b.entries_;
  }
  friend std::partial_ordering operator<=>(const IndexedMap& a, const IndexedMap& b) {
    return a.entries_ <=> b.entries_;
  }

 private:
  static constexpr size_t kFew = 16;  // maximum for linear search; most objects have no more

  void IndexIfMany() {
    if (size() <= kFew) return;
    index_ = std::make_unique<std::map<std::string_view, iterator>>();
    for (iterator at = begin(); at != end(); ++at) index_->emplace(at->first, at);
  }

  Entries entries_;
  std::unique_ptr<std::map<std::string_view, iterator>> index_;  // null if there are few entries
};

}  // namespace moonring::base

#endif  // MOONRING_BASE_TEXT_ORDERED_JSON_H_
