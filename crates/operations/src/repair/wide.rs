//! A wide collection: rows come from the whole table files of each column group, then from the log.

use super::report::RepairEvent;
use super::survey::{Survey, Surveyed};
use super::work::Repair;
use quire_database::catalog::partition_dir;
use quire_database::{CollectionSettings, Damage, Database, Result, WideCollection, engine};
use quire_model::Position;
use quire_store::{Durability, Place};
use quire_wide::{Salvaged, Schema, WideSalvage};
use std::sync::Arc;

impl Repair<'_> {
    /// Salvages a wide collection. Rows are written anew: they get new versions.
    pub(super) fn wide_collection(
        &mut self,
        database: &Database,
        survey: &Survey,
        surveyed: &Surveyed,
        schema: &Schema,
    ) -> Result<()> {
        self.begin_collection(surveyed);
        let settings = CollectionSettings {
            wide: Some(schema.clone()),
            ..surveyed.settings.clone()
        };
        let collection = engine::create_wide_copy(database, &surveyed.name, settings)?;
        for partition in 0..surveyed.settings.partitions {
            let place = Place {
                volumes: self.from.clone(),
                subdir: partition_dir(surveyed.id, partition),
                identity: survey.identity(surveyed.id, partition),
            };
            let fields = (schema, &*surveyed.settings.key_field);
            self.wide_partition(&place, &collection, fields, partition)?;
        }
        self.report.documents += collection.count()?;
        Ok(())
    }

    fn wide_partition(
        &mut self,
        place: &Place,
        collection: &WideCollection,
        fields: (&Schema, &str),
        partition: u32,
    ) -> Result<()> {
        let name = collection.name().to_string();
        let shared = Arc::clone(&self.shared);
        let salvage = WideSalvage::begin(&shared, place, fields, &mut |bytes| self.read(bytes))?;
        let known = salvage.position();
        self.report.tables_lost += salvage.tables_lost();
        self.report.ends_unknown += u64::from(salvage.is_all_lost());
        salvage.run(&mut |found| {
            match found {
                Salvaged::Read(bytes) => self.read(bytes),
                Salvaged::Damage(damage) => {
                    let mut damage = Damage::from(damage);
                    // The trees have what the log lost before that.
                    damage.positions = damage
                        .positions
                        .filter(|(_, last)| *last > known.0)
                        .map(|(first, last)| (first.max(known.next().0), last));
                    let lost = damage.positions;
                    self.damage(&name, partition, damage);
                    if let Some((first, last)) = lost {
                        self.report.positions_unknown += last - first + 1;
                        self.unknown(&name, partition, Position(first), Some(Position(last)));
                    }
                }
                Salvaged::Senseless(position, what) => {
                    let mut damage = Damage::new(&place.dir(), 0, what, "the record");
                    damage.positions = Some((position.0, position.0));
                    self.damage(&name, partition, damage);
                }
                Salvaged::Write(write) => {
                    self.report.records += 1;
                    engine::write_wide(collection, &write, Durability::None)?;
                }
                Salvaged::Torn { key, trees } => {
                    self.report.rows_torn += 1;
                    (self.on_event)(RepairEvent::Torn {
                        collection: name.clone(),
                        partition,
                        key: key.to_string(),
                        trees,
                    });
                }
            }
            Ok(())
        })
    }
}
