//! A map for the few keys that every input looks up or walks through: the links of a node, its broadcasts. Two arrays in
//! ascending order of the keys: a search touches keys alone, and a walk is one over memory. An insertion or a removal moves all
//! that is behind it, so it is for keys that come and go rarely, or come in ascending order as those of links do.

use std::ops::Index;

/// Values by key, ascending.
#[derive(Clone, Debug)]
pub struct SortedMap<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        SortedMap { keys: Vec::new(), values: Vec::new() }
    }
}

impl<K: Copy + Ord, V> SortedMap<K, V> {
    /// Entries.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether there is a value of a key.
    pub fn contains_key(&self, key: &K) -> bool {
        self.find(key).is_ok()
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.find(key).ok().map(|at| &self.values[at])
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.find(key).ok().map(|at| &mut self.values[at])
    }

    /// The value of a key, put there first if there is none.
    pub fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let at = self.find(&key).unwrap_or_else(|at| {
            self.insert_at(at, key, V::default());
            at
        });
        &mut self.values[at]
    }

    /// Puts a value there; returns the one that was.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.values[at], value)),
            Err(at) => {
                self.insert_at(at, key, value);
                None
            }
        }
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.find(key).ok()?;
        self.keys.remove(at);
        let value = self.values.remove(at);
        // What a crowd has left empty is given back.
        if self.values.len() < self.values.capacity() / 4 {
            self.keys.shrink_to(self.keys.len() * 2);
            self.values.shrink_to(self.values.len() * 2);
        }
        Some(value)
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
    }

    /// Keys and values, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.keys.iter().copied().zip(&self.values)
    }

    /// The same, the values to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (K, &mut V)> {
        self.keys.iter().copied().zip(&mut self.values)
    }

    /// The keys, ascending.
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.keys.iter().copied()
    }

    /// The values, by ascending key.
    pub fn values(&self) -> std::slice::Iter<'_, V> {
        self.values.iter()
    }

    /// The same, to be changed.
    pub fn values_mut(&mut self) -> std::slice::IterMut<'_, V> {
        self.values.iter_mut()
    }

    /// Puts an entry there. Arrays grow by a quarter: who comes rarely may be moved more often than by doubling, and a simulator
    /// has the maps of a hundred thousand nodes in memory.
    fn insert_at(&mut self, at: usize, key: K, value: V) {
        let more = 1 + self.keys.len() / 4;
        if self.keys.len() == self.keys.capacity() {
            self.keys.reserve_exact(more);
        }
        if self.values.len() == self.values.capacity() {
            self.values.reserve_exact(more);
        }
        self.keys.insert(at, key);
        self.values.insert(at, value);
    }

    /// Where a key is, or would have to be.
    fn find(&self, key: &K) -> Result<usize, usize> {
        match self.keys.last() {
            // Keys mostly come in ascending order.
            Some(last) if last < key => Err(self.keys.len()),
            _ => self.keys.binary_search(key),
        }
    }
}

impl<K: Copy + Ord, V> Index<&K> for SortedMap<K, V> {
    type Output = V;

    fn index(&self, key: &K) -> &V {
        self.get(key).expect("the key is in the map")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn room_grows_by_a_quarter_and_is_given_back() {
        let mut map = SortedMap::default();
        assert!((0..100).all(|key| map.insert(key, key).is_none()));
        assert!(map.values.capacity() <= 125 && map.keys.capacity() <= 125, "{}", map.values.capacity());
        assert!((0..95).all(|key| map.remove(&key) == Some(key)));
        assert!(map.values.capacity() <= 20 && map.keys.capacity() <= 20, "{}", map.values.capacity());
        assert!(map.keys().eq(95..100));
    }

    proptest! {
        #[test]
        fn behaves_like_a_tree(steps in proptest::collection::vec((0..4_u8, 0..20_u32, any::<u32>()), 0..100)) {
            let (mut map, mut model) = (SortedMap::default(), BTreeMap::new());
            for (what, key, value) in steps {
                match what {
                    0 => prop_assert_eq!(map.insert(key, value), model.insert(key, value)),
                    1 => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                    2 => {
                        *map.get_or_default(key) ^= value;
                        *model.entry(key).or_default() ^= value;
                    }
                    _ => prop_assert_eq!(map.get_mut(&key), model.get_mut(&key)),
                }
                prop_assert_eq!(map.get(&key), model.get(&key));
                prop_assert!(map.iter().eq(model.iter().map(|(&key, value)| (key, value))));
                prop_assert_eq!((map.len(), map.contains_key(&key)), (model.len(), model.contains_key(&key)));
            }
        }
    }
}
