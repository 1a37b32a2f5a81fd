throw new Error('in the init code');
