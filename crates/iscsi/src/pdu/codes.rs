//! The small codes of PDUs. Unknown codes of a peer stay visible as `Other`.

/// Makes an enum of one-byte codes.
macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$item:meta])* $variant:ident = $code:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$item])* $variant,)*
            /// A code that RFC 7143 does not name.
            Other(u8),
        }

        impl $name {
            /// The value with that code.
            pub const fn from_code(code: u8) -> Self {
                match code {
                    $($code => Self::$variant,)*
                    other => Self::Other(other),
                }
            }

            /// The code on the wire.
            pub const fn code(self) -> u8 {
                match self {
                    $(Self::$variant => $code,)*
                    Self::Other(code) => code,
                }
            }
        }
    };
}

codes! {
    /// Task attributes (RFC 7143 11.3.1): three bits.
    TaskAttribute {
        /// The initiator has none.
        Untagged = 0,
        /// May be reordered.
        Simple = 1,
        /// A barrier on both sides.
        Ordered = 2,
        /// Before all others.
        HeadOfQueue = 3,
        /// Auto contingent allegiance.
        Aca = 4,
    }
}

codes! {
    /// Functions of task management (RFC 7143 11.5.1): seven bits.
    TaskFunction {
        /// One task, named by its tag.
        AbortTask = 1,
        /// All tasks of this session on a logical unit.
        AbortTaskSet = 2,
        /// The auto contingent allegiance of a logical unit.
        ClearAca = 3,
        /// All tasks of all sessions on a logical unit.
        ClearTaskSet = 4,
        /// A logical unit, with all its tasks.
        LogicalUnitReset = 5,
        /// All logical units.
        TargetWarmReset = 6,
        /// All logical units; then the target ends all sessions.
        TargetColdReset = 7,
        /// A task's move to this connection.
        TaskReassign = 8,
    }
}

codes! {
    /// Answers to task management (RFC 7143 11.6.1).
    TaskResponse {
        /// The function is done.
        Complete = 0,
        /// No such task.
        TaskDoesNotExist = 1,
        /// No such logical unit.
        LunDoesNotExist = 2,
        /// The task has a connection still.
        TaskStillAllegiant = 3,
        /// Tasks cannot be moved.
        ReassignNotSupported = 4,
        /// The target does not have the function.
        NotSupported = 5,
        /// The initiator may not do that.
        AuthorizationFailed = 6,
        /// Refused for another reason.
        Rejected = 255,
    }
}

codes! {
    /// Answers of the iSCSI layer to a command (RFC 7143 11.4.3).
    ServiceResponse {
        /// The SCSI status is valid.
        Completed = 0,
        /// The target failed.
        TargetFailure = 1,
    }
}

codes! {
    /// Reasons of a logout (RFC 7143 11.14.1): seven bits.
    LogoutReason {
        /// The session ends.
        CloseSession = 0,
        /// The connection ends.
        CloseConnection = 1,
        /// The connection's tasks are to be moved to another.
        RemoveForRecovery = 2,
    }
}

codes! {
    /// Answers to a logout (RFC 7143 11.15.1).
    LogoutResponseCode {
        /// Closed.
        Success = 0,
        /// No such connection.
        CidNotFound = 1,
        /// Tasks cannot be recovered.
        RecoveryNotSupported = 2,
        /// The clean-up failed.
        CleanupFailed = 3,
    }
}

codes! {
    /// Reasons of a Reject (RFC 7143 11.17.1).
    RejectReason {
        /// The payload's digest is wrong.
        DataDigestError = 0x02,
        /// A SNACK that is not supported.
        SnackReject = 0x03,
        /// A breach of the protocol.
        ProtocolError = 0x04,
        /// The target does not have the operation.
        CommandNotSupported = 0x05,
        /// Too many immediate commands.
        ImmediateCommandReject = 0x06,
        /// The tag names a task that is under way.
        TaskInProgress = 0x07,
        /// Nothing to acknowledge.
        InvalidDataAck = 0x08,
        /// A field has a value that it cannot have.
        InvalidPduField = 0x09,
        /// The operation needs resources that are not there.
        LongOperationReject = 0x0a,
        /// The negotiation began anew.
        NegotiationReset = 0x0b,
        /// Only a logout is taken now.
        WaitingForLogout = 0x0c,
    }
}
