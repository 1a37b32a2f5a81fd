//! Values of parameters and columns.

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

pub(crate) trait Parameter {
    fn value(&self) -> Value<'_>;
}

/// `params![a, b]`: the parameters of a statement.
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::store::Parameter::value(&$value)),*] };
}
pub(crate) use params;

macro_rules! integers {
    ($($kind:ty),*) => {$(
        impl Parameter for $kind {
            fn value(&self) -> Value<'_> {
                // A value beyond the range of a column is beyond every value in it.
                Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
            }
        }

        impl Column for $kind {
            fn read(cell: Value<'_>) -> Option<Self> {
                cell.integer().and_then(|value| value.try_into().ok())
            }
        }
    )*};
}
integers!(i64, i32, i16, u64, u32, u16, u8, usize);

impl Parameter for bool {
    fn value(&self) -> Value<'_> {
        Value::Integer(i64::from(*self))
    }
}

impl Parameter for f64 {
    fn value(&self) -> Value<'_> {
        Value::Real(*self)
    }
}

macro_rules! texts {
    ($($kind:ty),*) => {$(
        impl Parameter for $kind {
            fn value(&self) -> Value<'_> {
                Value::Text(self)
            }
        }
    )*};
}
texts!(str, String, Box<str>);

impl Parameter for Vec<u8> {
    fn value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl<const N: usize> Parameter for [u8; N] {
    fn value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl<T: Parameter> Parameter for Option<T> {
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, T::value)
    }
}

impl<T: Parameter + ?Sized> Parameter for &T {
    fn value(&self) -> Value<'_> {
        T::value(self)
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Integer(value) => ValueRef::Integer(*value),
            Value::Real(value) => ValueRef::Real(*value),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl From<&Value<'_>> for mysql::Value {
    fn from(value: &Value<'_>) -> Self {
        match *value {
            Value::Null => mysql::Value::NULL,
            Value::Integer(value) => mysql::Value::Int(value),
            Value::Real(value) => mysql::Value::Double(value),
            Value::Text(text) => mysql::Value::Bytes(text.as_bytes().to_vec()),
            Value::Bytes(bytes) => mysql::Value::Bytes(bytes.to_vec()),
        }
    }
}

impl<'a> Value<'a> {
    /// A cell of a row. Text is bytes, because MariaDB does not distinguish them.
    pub(super) fn of_sqlite(value: ValueRef<'a>) -> Option<Self> {
        Some(match value {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(value) => Value::Integer(value),
            ValueRef::Real(value) => Value::Real(value),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Value::Bytes(bytes),
        })
    }

    pub(super) fn of_maria(value: &'a mysql::Value) -> Option<Self> {
        Some(match value {
            mysql::Value::NULL => Value::Null,
            mysql::Value::Int(value) => Value::Integer(*value),
            mysql::Value::UInt(value) => Value::Integer(i64::try_from(*value).ok()?),
            mysql::Value::Float(value) => Value::Real(f64::from(*value)),
            mysql::Value::Double(value) => Value::Real(*value),
            mysql::Value::Bytes(bytes) => Value::Bytes(bytes),
            mysql::Value::Date(..) | mysql::Value::Time(..) => return None,
        })
    }

    fn integer(self) -> Option<i64> {
        if let Value::Integer(value) = self { Some(value) } else { None }
    }

    fn bytes(self) -> Option<&'a [u8]> {
        if let Value::Bytes(bytes) = self { Some(bytes) } else { None }
    }
}

pub(crate) trait Column: Sized {
    /// `None` when the cell has another type.
    fn read(cell: Value<'_>) -> Option<Self>;
}

impl Column for bool {
    fn read(cell: Value<'_>) -> Option<Self> {
        cell.integer().map(|value| value != 0)
    }
}

impl Column for f64 {
    fn read(cell: Value<'_>) -> Option<Self> {
        if let Value::Real(value) = cell { Some(value) } else { None }
    }
}

impl Column for String {
    fn read(cell: Value<'_>) -> Option<Self> {
        std::str::from_utf8(cell.bytes()?).ok().map(str::to_owned)
    }
}

impl Column for Vec<u8> {
    fn read(cell: Value<'_>) -> Option<Self> {
        cell.bytes().map(<[u8]>::to_vec)
    }
}

impl<const N: usize> Column for [u8; N] {
    fn read(cell: Value<'_>) -> Option<Self> {
        cell.bytes()?.try_into().ok()
    }
}

impl<T: Column> Column for Option<T> {
    fn read(cell: Value<'_>) -> Option<Self> {
        match cell {
            Value::Null => Some(None),
            cell => T::read(cell).map(Some),
        }
    }
}
