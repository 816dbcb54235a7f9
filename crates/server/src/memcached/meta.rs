//! Flags of meta commands: single letters between spaces, some directly followed by a token.
//!
//! All flags are checked when a command is parsed. They are parsed again when it is answered, in
//! their order, so no list of them is allocated.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::exptime::Exptime;
use super::mode::Mode;
use super::refusal::{
    BAD_EXPTIME, BAD_FLAG, BAD_FORMAT, DUPLICATE_FLAG, Refusal, UNSUPPORTED_FLAG,
};
use super::words::{Words, number};

/// The longest opaque token, as memcached has it.
const OPAQUE_BYTES_MAX: usize = 32;

/// Which command the flags are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetaCommand {
    Get,
    Set,
    Delete,
    Arithmetic,
}

impl MetaCommand {
    /// The supported flags.
    fn allowed(self) -> &'static [u8] {
        match self {
            MetaCommand::Get => b"bcfkOqRstTv",
            MetaCommand::Set => b"bcCFkMOqsT",
            MetaCommand::Delete => b"bCkOq",
            MetaCommand::Arithmetic => b"bcCDkMOqtTv",
        }
    }

    /// Flags that memcached has and Quire does not support.
    fn unsupported(self) -> &'static [u8] {
        match self {
            MetaCommand::Get => b"EhlN",
            MetaCommand::Set => b"EIN",
            MetaCommand::Delete => b"EITx",
            MetaCommand::Arithmetic => b"EJN",
        }
    }
}

/// The flags of one command, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MetaFlags<'a> {
    words: &'a [u8],
    /// The key as it was sent: in base64 if `is_base64`.
    pub(crate) key: &'a [u8],
    pub(crate) is_base64: bool,
    pub(crate) quiet: bool,
    pub(crate) with_value: bool,
}

/// What the flags say of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MetaChange {
    pub(crate) cas: Option<u64>,
    pub(crate) client_flags: u32,
    pub(crate) mode: Mode,
    pub(crate) up: bool,
    pub(crate) by: u64,
    pub(crate) exptime: Option<Exptime>,
}

impl<'a> MetaFlags<'a> {
    /// Checks the flags of a command: what they say, and what a write is to do.
    ///
    /// # Errors
    /// A flag that is unknown, given twice, not supported, or has a malformed token.
    pub(crate) fn parse(
        command: MetaCommand,
        key: &'a [u8],
        words: &'a [u8],
    ) -> Result<(MetaFlags<'a>, MetaChange), Refusal> {
        let mut flags = MetaFlags {
            words,
            key,
            is_base64: false,
            quiet: false,
            with_value: false,
        };
        let mut change = MetaChange {
            cas: None,
            client_flags: 0,
            mode: Mode::Set,
            up: true,
            by: 1,
            exptime: None,
        };
        let mut seen = 0_u128;
        for (flag, token) in flags.iter() {
            let bit = 1_u128.checked_shl(u32::from(flag)).unwrap_or(0);
            if command.unsupported().contains(&flag) {
                return Err(UNSUPPORTED_FLAG);
            }
            if !command.allowed().contains(&flag) {
                return Err(BAD_FLAG);
            }
            if seen & bit != 0 {
                return Err(DUPLICATE_FLAG);
            }
            seen |= bit;
            let whole = || number(token).ok_or(BAD_FORMAT);
            match flag {
                b'b' => flags.is_base64 = true,
                b'q' => flags.quiet = true,
                b'v' => flags.with_value = true,
                b'C' => change.cas = Some(whole()?),
                b'D' => change.by = whole()?,
                b'F' => change.client_flags = u32::try_from(whole()?).map_err(|_| BAD_FORMAT)?,
                b'M' if command == MetaCommand::Set => change.mode = store_mode(token)?,
                b'M' => change.up = is_up(token)?,
                b'O' if token.len() > OPAQUE_BYTES_MAX => return Err(BAD_FORMAT),
                b'R' => drop(whole()?),
                b'T' => change.exptime = Some(Exptime::parse(token).ok_or(BAD_EXPTIME)?),
                _ => {}
            }
        }
        Ok((flags, change))
    }

    /// The flags with their tokens, in their order.
    pub(crate) fn iter(self) -> impl Iterator<Item = (u8, &'a [u8])> {
        Words(self.words).filter_map(|word| word.split_first().map(|(flag, token)| (*flag, token)))
    }

    /// The decoded key; none if it is not valid base64.
    pub(crate) fn decoded_key(self) -> Option<Cow<'a, [u8]>> {
        if self.is_base64 {
            BASE64.decode(self.key).ok().map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(self.key))
        }
    }
}

fn store_mode(token: &[u8]) -> Result<Mode, Refusal> {
    match token {
        b"S" | b"s" | b"set" => Ok(Mode::Set),
        b"E" | b"e" | b"add" => Ok(Mode::Add),
        b"R" | b"r" | b"replace" => Ok(Mode::Replace),
        b"A" | b"a" | b"append" => Ok(Mode::Append),
        b"P" | b"p" | b"prepend" => Ok(Mode::Prepend),
        _ => Err(Refusal::new("CLIENT_ERROR invalid mode for ms")),
    }
}

fn is_up(token: &[u8]) -> Result<bool, Refusal> {
    match token {
        b"I" | b"i" | b"+" | b"incr" => Ok(true),
        b"D" | b"d" | b"-" | b"decr" => Ok(false),
        _ => Err(Refusal::new("CLIENT_ERROR invalid mode for ma")),
    }
}
